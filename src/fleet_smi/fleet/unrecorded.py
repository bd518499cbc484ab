"""Reports that a full history could not take: they are shown, and recorded when they come again."""

from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.snapshot import Snapshot


def begin_unrecorded(node: NodeState) -> None:
    """Remember what is recorded of a node, before a report that is not."""
    if node.unrecorded_since is None:
        latest = node.sample
        run_id, sequence = (None, -1) if latest is None else (latest.base.run_id, latest.sequence)
        node.unrecorded_since = run_id, sequence, node.at


def end_unrecorded(node: NodeState, snapshot: Snapshot, at: float) -> bool:
    """Return whether a report continues what is recorded, though a later one was shown."""
    if node.unrecorded_since is None:
        return False
    run_id, sequence, recorded_at = node.unrecorded_since
    if snapshot.run_id is not None and snapshot.run_id == run_id:
        is_next = snapshot.sequence > sequence
    else:
        is_next = at > recorded_at
    if is_next:
        node.unrecorded_since, node.at = None, recorded_at
    return is_next
