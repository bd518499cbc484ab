"""A fleet of one machine that is sampled in this process, without identities and transports.

`FleetState` would do as well, but takes a local command milliseconds to import.
"""

from fleet_smi.fleet.inventory import InventoryIndex, track_gpus
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import build_node_view, summarize_nodes


class OneMachine:
    """The latest sample of a machine, judged."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._inventories = InventoryIndex()
        self._node: NodeState | None = None

    def apply(self, snapshot: Snapshot) -> None:
        """Judge one more sample."""
        node, at = self._node, snapshot.taken_at
        if node is None or node.node_id != snapshot.node_id:
            node = self._node = NodeState(snapshot.node_id)
        if at < node.at:  # the clock was set back
            self._inventories.shift_times(at - node.at)
            node.shift_times(at - node.at, self._thresholds)
        snapshot = track_gpus(node, self._inventories, snapshot, at)
        node.update(snapshot, at, self._thresholds)

    def view(self, now: float) -> FleetView:
        """Return the machine as a fleet at one moment; it has no node before the first sample."""
        nodes = []
        node = self._node
        if node is not None:
            # A driver that was slow to answer is no silence: the sample has just been taken.
            delay_seconds = max(0.0, now - node.at)
            nodes.append(build_node_view(node.parts(now, self._thresholds, delay_seconds)))
        return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=tuple(nodes))
