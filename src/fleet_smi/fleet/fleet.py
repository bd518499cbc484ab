"""The live state of the fleet: the latest snapshot of every node, and the verdict on each GPU.

Pure: the caller passes in the snapshots and the time, always by the hub's own clock.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf, isfinite

from fleet_smi.fleet.delivery import IdOrigin
from fleet_smi.fleet.figure_reports import MAX_AGE_ERROR_SECONDS, FigureReports
from fleet_smi.fleet.fleet_change import FleetChange, late_change, node_change
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.fleet.inventory import InventoryIndex, track_gpus
from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.fleet.node_checkpoint import NodeCheckpoint
from fleet_smi.fleet.node_faults import NodeFaults
from fleet_smi.fleet.node_limit import MAX_NODES
from fleet_smi.fleet.node_state import NodeState, restore_node
from fleet_smi.fleet.node_views import NodeViews
from fleet_smi.fleet.routes import Routes
from fleet_smi.fleet.same_machine import MachineIndex, is_known_by_name
from fleet_smi.fleet.silence import SilenceChecks
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.fleet.unrecorded import begin_unrecorded, end_unrecorded
from fleet_smi.fleet.via import Via
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.node_names import NodePlace
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.views import NodeParts, summarize_nodes

__all__ = ["FleetChange", "FleetState", "NodeCheckpoint", "NodeParts", "StateTransition", "Via"]


class FleetState:
    """The latest snapshot of every node, judged."""

    def __init__(
        self,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        identities: NodeIdentities | None = None,
        max_nodes: int = MAX_NODES,
    ) -> None:
        self.thresholds = thresholds
        self.max_nodes = max_nodes
        """How many nodes may report; targets of the settings are listed beyond it."""
        self.identities = identities or NodeIdentities()
        self._nodes: dict[str, NodeState] = {}
        self._inventories = InventoryIndex()
        self.routes = Routes(self._nodes, self.remove, self._mark_dirty)
        self._dirty: set[str] = set()
        self._silence_checks = SilenceChecks(self._nodes, thresholds, self._mark_dirty)
        self.revision = 0
        """Counts the changes: what was computed at a lower revision may be out of date."""
        self.delay_seconds = 0.0
        """How late reports may be because of the hub, by the last tick."""
        self.faults = NodeFaults(self._mark_dirty)
        """The parts of single nodes that are set aside because of bugs of the hub."""
        self._machines = MachineIndex(self._nodes, thresholds)
        self.figure_reports = FigureReports(self._nodes, thresholds, self.apply, self._mark_applied)
        """Applies reports in which only figures differ from the report before."""
        self.views = NodeViews(
            self._nodes, self.identities, self.faults, thresholds, self._mark_dirty
        )

    def apply(
        self,
        snapshot: Snapshot,
        at: float,
        via: Via | None = None,
        *,
        origin: IdOrigin = "report",
        address: str | None = None,
        is_recorded: bool = True,
    ) -> FleetChange | None:
        """Apply a snapshot that was taken at `at`; `None` when it is a duplicate or out of date.

        A snapshot without a `run_id` has no number: only its time shows whether it is new. The
        number of one that is not recorded does not count as received: it has to be sent again.
        One of an older tool, read at `address`, is a duplicate where an agent reports the machine.
        """
        # NaN compares false with every later time: it would lock its node out for good.
        if not (isfinite(snapshot.taken_at) and isfinite(at)):
            return None
        if via is not None and is_known_by_name(snapshot, origin):
            joined = self.routes.node_id(via)
            full = self._machines.find(snapshot, at, via, address, joined)
            if full is not None:
                self.routes.join(via, full, snapshot.node_id)
                return None
        node = self._nodes.get(snapshot.node_id)
        first = node is None
        if node is None:
            node = self._nodes[snapshot.node_id] = NodeState(snapshot.node_id)
        # Before the duplicate check: a report that another route delivered first still proves
        # that this route works.
        if via is not None and (via != node.via or via not in node.vias or node.failures):
            self.routes.attach(via, node)
            self.revision += 1
            node.facts_revision = self.revision
        if not node.is_new(snapshot, is_recorded=is_recorded):
            return None
        # First the attribute, which is nearly always `None`.
        continues = node.unrecorded_since and is_recorded and end_unrecorded(node, snapshot, at)
        if not continues and not node.is_older_than(snapshot, at):
            # Without a number it is no gap that it fills, but out of date.
            is_late = snapshot.run_id is not None and is_recorded
            if is_late:  # its number was added, so the checkpoint has to be written again
                self._mark_dirty(node.node_id)
            return late_change(snapshot, at, via) if is_late else None
        if not is_recorded:
            begin_unrecorded(node)
        # Newer by its number, older by its time: its age is wrong, as two transports disagree or
        # the node's clock was set before it was sent. A window must never see time run backwards.
        if 0 < node.at - at <= MAX_AGE_ERROR_SECONDS:
            at = node.at
        snapshot = self._update_inventory(node, snapshot, at)
        self._machines.update_if_changed(node, snapshot)
        node.address = address
        transitions = node.update(snapshot, at, self.thresholds)
        self._mark_applied(node.node_id)
        node.facts_revision = self.revision
        return node_change(node, via, transitions, is_first=first)

    def add_target(self, via: Via) -> None:
        """List a target before its first report."""
        if self.routes.node(via) is None:
            node_id = via.placeholder_id
            # A node may have reported under this very id: it must not be replaced by an empty one.
            node = self._nodes.setdefault(node_id, NodeState(node_id, via))
            self.routes.add(via, node)
            self._mark_dirty(node_id)

    def drop_target(self, via: Via) -> None:
        """Remove a target that is gone from the list, unless a node has reported that way."""
        self.identities.release(via)
        node = self.routes.node(via)
        if node is not None and node.sample is None:
            self.remove(node.node_id)

    def record_failure(self, via: Via, message: str, at: float) -> None:
        """Record why a source could not reach a target; cleared by the next report that way.

        It does not make the node silent: another source may still reach it. A fleet that is full
        lists no more of them.
        """
        if self.routes.node_id(via) is None and self.is_full:
            return
        self.add_target(via)
        node = self._nodes[self.routes.node_id(via) or via.placeholder_id]
        # Failures and reports arrive out of order: one from before the latest report is outdated.
        reached_since = via == node.via and at < node.at
        if not reached_since and node.failures.get(via) != message:
            node.failures[via] = message
            self._mark_dirty(node.node_id)

    def nodes_named(self, name: str) -> list[str]:
        """Return the ids of the nodes that are shown under this name."""
        return [node_id for node_id, node in self._nodes.items() if node.name == name]

    def label(
        self, node_id: str, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Set a name and labels that override the node's own; return false when it is unknown.

        An empty name or label restores the node's own.
        """
        node = self._nodes.get(node_id)
        if node is None:
            return False
        if name is not None:
            node.given_name = name or None
            node.update_sort_key()
        given = {**node.given_labels, **(labels or {})}
        node.given_labels = {label: value for label, value in given.items() if value}
        self._mark_dirty(node_id)
        return True

    def remove(self, node_id: str) -> bool:
        """Remove a node and its GPUs; return false when it is unknown."""
        node = self._nodes.pop(node_id, None)
        if node is None:
            return False
        self._inventories.forget(node_id, node.inventory.claims)
        self._machines.forget(node_id)
        self.faults.forget(node_id)
        self.identities.forget(node_id)
        self.routes.forget(node)
        self._mark_dirty(node_id)
        return True

    def is_ahead_of_history(self, node_id: str) -> bool:
        """Return whether the latest snapshot of a node is not recorded, only shown."""
        node = self._nodes.get(node_id)
        return node is not None and node.unrecorded_since is not None

    def checkpoint(self, node_id: str) -> NodeCheckpoint | None:
        """Return what to store of a node; `None` if it is unknown or has never reported."""
        node = self._nodes.get(node_id)
        checkpoint = None if node is None else node.checkpoint()
        if checkpoint is None:
            return None
        return self.identities.annotate(checkpoint)

    def restore(self, checkpoint: NodeCheckpoint) -> None:
        """Restore a node from its checkpoint, before any report of it is applied."""
        node = restore_node(checkpoint, self.thresholds)
        self.identities.restore(checkpoint, self.thresholds)
        self._nodes[node.node_id] = node
        self._inventories.restore(node.node_id, node.inventory)
        self._machines.update(node.node_id, checkpoint.snapshot)
        self.routes.restore(node)
        self._mark_dirty(node.node_id)

    def restore_unreadable(self, node_id: str, name: str, error: Exception) -> None:
        """List a node whose checkpoint cannot be restored, until its next report."""
        node = self._nodes[node_id] = NodeState(node_id)
        node.saved_name = name
        node.update_sort_key()
        self.faults.record("restore", node_id, error)
        self._mark_dirty(node_id)

    def tick(self, now: float, delay_seconds: float = 0.0) -> None:
        """Mark nodes that have become silent as changed: of a large fleet, a part at each tick.

        Reports may be late by `delay_seconds` because the hub was busy: that is no silence.
        """
        before, self.delay_seconds = self.delay_seconds, delay_seconds
        self._silence_checks.tick(now, delay_seconds, before)

    @property
    def latest_report_at(self) -> float:
        """The time of the latest report of any node; minus infinity without any."""
        return max([node.at for node in self._nodes.values()], default=-inf)

    def shift_times(self, seconds: float) -> None:
        """Move all times by the seconds by which the hub's clock was set.

        What has lasted for an hour has still lasted for an hour, whatever the clock says now.
        """
        self._inventories.shift_times(seconds)
        self.identities.shift_times(seconds)
        self._machines.shift_times(seconds)
        for node in self._nodes.values():
            node.shift_times(seconds, self.thresholds)
            self._mark_dirty(node.node_id)

    def take_dirty(self) -> set[str]:
        """Return and clear the ids of the nodes that changed, removed ones included."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def view(self, now: float) -> FleetView:
        """Return the fleet at one moment, nodes sorted by name."""
        nodes = tuple(self.nodes(now))
        return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=nodes)

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Yield every node sorted by name, each built when it is requested."""
        for node in self.views.in_order():
            yield self.views.view(node, now, self.delay_seconds)

    def parts(self, now: float, after: NodePlace | None = None) -> Iterator[NodeParts]:
        """Yield every node sorted by name, or those after a place, in parts."""
        for node in self.views.in_order(after):
            yield self.views.parts(node, now, self.delay_seconds)

    def places(self, _now: float) -> list[NodePlace]:
        """Return the places of all nodes, in order."""
        return sorted([node.sort_key for node in self._nodes.values()])

    def node(self, node_id: str, now: float) -> NodeView | None:
        """Return one node at one moment; `None` when it is unknown."""
        node = self._nodes.get(node_id)
        return None if node is None else self.views.view(node, now, self.delay_seconds)

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        """Return one node at one moment, in parts; `None` when it is unknown."""
        node = self._nodes.get(node_id)
        return None if node is None else self.views.parts(node, now, self.delay_seconds)

    def live_node(self, node_id: str, now: float) -> LiveNode | None:
        """Return one node that reports, for a comparison; `None` where `node_parts` is needed."""
        node = self._nodes.get(node_id)
        return None if node is None else self.views.live(node, now, self.delay_seconds)

    def select_live(self, node_ids: Iterable[str], now: float) -> list[NodeState | None]:
        """Return the nodes of which `live_node` is more than `None`."""
        return self.views.select_live(node_ids, now, self.delay_seconds)

    def device_keys(self) -> set[tuple[str, str]]:
        """Return the node id and UUID of every GPU and instance in `view`; in any thread."""
        return self.views.device_keys()

    def latest_snapshot(self, node_id: str) -> Snapshot | None:
        """Return the latest snapshot of a node, if it has one."""
        node = self._nodes.get(node_id)
        return None if node is None else node.snapshot

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The ids of all listed nodes."""
        return tuple(self._nodes)

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    @property
    def is_full(self) -> bool:
        """Whether there is room for no more nodes."""
        return len(self._nodes) >= self.max_nodes

    def has_node(self, node_id: str) -> bool:
        """Return whether a node is listed."""
        return node_id in self._nodes

    def name_and_labels(self, node_id: str) -> tuple[str, dict[str, str]]:
        """Return the name and the labels of a known node."""
        return (node := self._nodes[node_id]).name, node.labels

    def mark_all_applied(self, node_ids: Collection[str]) -> None:
        """Mark nodes as changed by reports that could be applied."""
        self.revision += len(node_ids)
        self._dirty.update(node_ids)
        if self.faults:
            for node_id in node_ids:
                self.faults.clear("report", node_id)
                self.faults.clear("restore", node_id)

    def _mark_applied(self, node_id: str) -> None:
        """Mark a node as changed by a report that could be applied."""
        self.mark_all_applied((node_id,))

    def _mark_dirty(self, node_id: str) -> None:
        """Mark a node as changed."""
        self.revision += 1
        self._dirty.add(node_id)
        if (node := self._nodes.get(node_id)) is not None:
            node.facts_revision = self.revision

    def _update_inventory(self, node: NodeState, snapshot: Snapshot, at: float) -> Snapshot:
        """Track GPUs that appeared, went missing or were moved; return it with unique UUIDs."""
        snapshot = track_gpus(node, self._inventories, snapshot, at)
        if node.inventory.missing:
            twins = self.identities.twins(node.node_id)
            self._inventories.prune(node.node_id, node.inventory, twins)
            self._inventories.note_moves(node.node_id, node.inventory, self.views.home_of, at)
        return snapshot
