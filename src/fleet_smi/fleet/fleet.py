"""What the hub believes now: the latest of every node, and the verdict on each GPU.

Pure: the caller brings the snapshots and the time, always by the hub's own clock.
"""

from collections.abc import Iterator, Mapping
from math import inf, isfinite

from msgspec import Struct

from fleet_smi.fleet.inventory import InventoryIndex, missing_gpus_from
from fleet_smi.fleet.node_state import NodeCheckpoint, NodeState, StateTransition, Via, restore_node
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.uuids import snapshot_uuids, with_unique_uuids
from fleet_smi.model.verdict.hysteresis import Standing
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.views import NodeParts, build_node_view, summarize_nodes

__all__ = ["FleetChange", "FleetState", "NodeCheckpoint", "NodeParts", "StateTransition", "Via"]

# By so much two ways to one node may differ in when a sample was taken.
_JITTER_SECONDS = 5.0


class FleetChange(Struct, frozen=True, kw_only=True, gc=False):
    """What one snapshot changed; `first` when its node was not known before.

    `at` is when it was taken, by the hub's clock, and `reported` the UUIDs in it. `standings`
    is how all stands after it, and it `stirred` those GPUs and instances where others are than
    before, or hold other memory, and those that are gone. A `late` one fills a hole in what
    came before, and changes nothing of what is believed now.
    """

    snapshot: Snapshot
    at: float
    reported_uuids: list[str]
    via: Via | None = None
    is_first: bool = False
    is_late: bool = False
    transitions: tuple[StateTransition, ...] = ()
    standings: Mapping[str, Standing] = {}
    occupancy_changed: tuple[str, ...] = ()


class FleetState:
    """Every node's latest snapshot, judged."""

    def __init__(self, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> None:
        self.thresholds = thresholds
        self._nodes: dict[str, NodeState] = {}
        self._inventories = InventoryIndex()
        # Which node each way leads to, as far as is known.
        self._ways: dict[Via, str] = {}
        self._dirty: set[str] = set()
        self.revision = 0
        """How many changes there were: what was made from an older one may be out of date."""

    def apply(self, snapshot: Snapshot, at: float, via: Via | None = None) -> FleetChange | None:
        """Take one snapshot in, taken at `at`; `None` when it came before, or is too old to tell.

        A snapshot without a `run_id` is told from one that came before by its time alone.
        """
        if not (isfinite(snapshot.taken_at) and isfinite(at)):
            return None
        node = self._nodes.get(snapshot.node_id)
        first = node is None
        if node is None:
            node = self._nodes[snapshot.node_id] = NodeState(snapshot.node_id)
        if via is not None and (via != node.via or node.failures):
            self._heard(node, via)
        run_id = snapshot.run_id
        if run_id is not None and not node.sequences.add(run_id, snapshot.sequence):
            return None
        if not node.is_older_than(snapshot, at):
            if run_id is None:
                return None
            self._mark(node.node_id)  # its numbers are remembered
            return FleetChange(
                snapshot=snapshot,
                at=at,
                reported_uuids=snapshot_uuids(snapshot),
                via=via,
                is_late=True,
            )
        if 0 < node.at - at <= _JITTER_SECONDS:
            at = node.at
        snapshot = self._take_stock(node, snapshot, at)
        turns = node.update(snapshot, at, self.thresholds)
        self._mark(node.node_id)
        return FleetChange(
            snapshot=snapshot,
            at=at,
            reported_uuids=node.reported_uuids,
            via=via,
            is_first=first,
            transitions=turns,
            standings=node.standings,
            occupancy_changed=node.occupancy_changed,
        )

    def add_target(self, via: Via) -> None:
        """List a target that is known before anything is heard of it."""
        if via not in self._ways:
            node_id = f"{via.source}:{via.target}"
            node = self._nodes.setdefault(node_id, NodeState(node_id, via))
            node.vias.add(via)
            self._ways[via] = node_id
            self._mark(node_id)

    def drop_target(self, via: Via) -> None:
        """List a target no longer, unless a node was heard that way."""
        node = self._nodes.get(self._ways.get(via, ""))
        if node is not None and node.snapshot is None:
            self.remove(node.node_id)

    def record_failure(self, via: Via, message: str, at: float) -> None:
        """A source could not hear a target: told of the node until it is heard that way again.

        It makes no node silent: another source may well hear it.
        """
        self.add_target(via)
        node = self._nodes[self._ways[via]]
        heard_since = via == node.via and at < node.at
        if not heard_since and node.failures.get(via) != message:
            node.failures[via] = message
            self._mark(node.node_id)

    def label(
        self, node_id: str, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Give a node a name and labels that win over its own; false when it is not known.

        An empty name or label gives the node's own back.
        """
        node = self._nodes.get(node_id)
        if node is None:
            return False
        if name is not None:
            node.given_name = name or None
            node.update_sort_key()
        given = {**node.given_labels, **(labels or {})}
        node.given_labels = {label: value for label, value in given.items() if value}
        self._mark(node_id)
        return True

    def remove(self, node_id: str) -> bool:
        """Forget a node and its GPUs; false when it is not known."""
        node = self._nodes.pop(node_id, None)
        if node is None:
            return False
        self._inventories.forget(node_id, node.inventory.claims)
        for via in node.vias:
            del self._ways[via]
        self._mark(node_id)
        return True

    def checkpoint(self, node_id: str) -> NodeCheckpoint | None:
        """What of a node outlives the hub; `None` for one that is not known or never spoke."""
        node = self._nodes.get(node_id)
        return None if node is None else node.checkpoint()

    def restore(self, checkpoint: NodeCheckpoint) -> None:
        """Take in what was remembered of a node, before anything is heard of it."""
        node = restore_node(checkpoint, self.thresholds)
        self._nodes[node.node_id] = node
        self._inventories.restore(node.node_id, node.inventory)
        self._ways.update(dict.fromkeys(node.vias, node.node_id))
        self._mark(node.node_id)

    def tick(self, now: float) -> None:
        """Mark the nodes that have fallen silent since the last tick as changed."""
        for node in self._nodes.values():
            if node.wake_at < now:
                node.wake_at = inf
                self._mark(node.node_id)

    def take_dirty(self) -> set[str]:
        """The nodes that changed since this was last asked, those that were removed among them."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def view(self, now: float) -> FleetView:
        """The fleet at one moment, nodes in the order of their names."""
        nodes = tuple(self.nodes(now))
        return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=nodes)

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Every node in the order of their names, each as it is when it is asked for."""
        for node in sorted(self._nodes.values(), key=lambda node: node.sort_key):
            yield build_node_view(node.parts(now, self.thresholds))

    def node(self, node_id: str, now: float) -> NodeView | None:
        """One node at one moment; `None` when it is not known."""
        parts = self.node_parts(node_id, now)
        return None if parts is None else build_node_view(parts)

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        """One node at one moment, in parts; `None` when it is not known."""
        node = self._nodes.get(node_id)
        return None if node is None else node.parts(now, self.thresholds)

    def latest_snapshot(self, node_id: str) -> Snapshot | None:
        """The latest snapshot of a node."""
        node = self._nodes.get(node_id)
        return None if node is None else node.snapshot

    def name_and_labels(self, node_id: str) -> tuple[str, dict[str, str]]:
        """The name and the labels of a node that was heard of."""
        node = self._nodes[node_id]
        own = {} if node.snapshot is None else node.snapshot.labels
        return node.name, own | node.given_labels

    def _mark(self, node_id: str) -> None:
        """Note that something about a node is not as it was."""
        self.revision += 1
        self._dirty.add(node_id)

    def _heard(self, node: NodeState, via: Via) -> None:
        """A node was heard this way: its trouble is over, and the target has a name now."""
        other = self._nodes.get(self._ways.get(via, node.node_id))
        if other is not None and other is not node:
            if other.snapshot is None:
                self.remove(other.node_id)
            else:
                other.vias.discard(via)
        self._ways[via] = node.node_id
        node.vias.add(via)
        node.via = via
        if node.failures.pop(via, None) is not None:
            self._mark(node.node_id)

    def _take_stock(self, node: NodeState, snapshot: Snapshot, at: float) -> Snapshot:
        """Account for every GPU that was here before; returns the snapshot with each UUID once."""
        reported = snapshot_uuids(snapshot)
        if reported != node.reported_uuids and len(set(reported)) < len(reported):
            snapshot = with_unique_uuids(snapshot)
            reported = snapshot_uuids(snapshot)
        if reported != node.reported_uuids:
            gone = [] if node.snapshot is None else missing_gpus_from(node.snapshot, node.at)
            self._inventories.update(node.node_id, node.inventory, gone, snapshot, at)
            node.reported_uuids = reported
        if node.inventory.missing:
            self._inventories.prune(node.node_id, node.inventory)
        return snapshot
