"""The view of a node without its GPUs: by its latest snapshot, or by its name alone."""

from typing import TYPE_CHECKING

from fleet_smi.fleet.clock_watch import is_clock_wrong
from fleet_smi.model.fleet import NodeView

if TYPE_CHECKING:
    from fleet_smi.fleet.node_state import NodeState

# These transports fetch only the latest report: gaps in the numbers are no loss there.
_LATEST_ONLY = ("pull", "files")


def bare_view(node: "NodeState") -> NodeView:
    """Return a node by name only, where no more of it can be shown."""
    return NodeView(
        node_id=node.node_id,
        name=node.name,
        taken_at=None,
        age_seconds=None,
        silent=True,
        via=None if node.via is None else node.via.source,
        trouble=node.failure_message,
        ssh_host=node.ssh_host,
        labels=node.given_labels,
    )


def view_without_gpus(node: "NodeState", now: float, *, silent: bool) -> NodeView:
    """Return a node at one moment, by its latest snapshot if it has one."""
    via, snapshot = None if node.via is None else node.via.source, node.snapshot
    if snapshot is None:
        return bare_view(node)
    skew = node.at - snapshot.taken_at
    return NodeView(
        node_id=node.node_id,
        name=node.name,
        taken_at=snapshot.taken_at,
        age_seconds=max(0.0, now - node.at),
        silent=silent,
        via=via,
        trouble=node.failure_message,
        clock_skew_seconds=skew if is_clock_wrong(skew) else None,
        missing_reports=0 if via in _LATEST_ONLY else node.sequences.missing,
        ssh_host=node.ssh_host,
        labels=snapshot.labels | node.given_labels,
        interval_seconds=snapshot.interval_seconds,
        sequence=snapshot.sequence,
        boot_id=snapshot.boot_id,
        agent_version=snapshot.agent_version,
        host=snapshot.host,
        runs=snapshot.runs,
    )
