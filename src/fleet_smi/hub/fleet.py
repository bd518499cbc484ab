"""What the hub believes now: the latest of every node, and the verdict on each GPU.

Pure: the caller brings the snapshots and the time, always by the hub's own clock.
"""

from collections.abc import Iterator, Mapping
from math import inf, isfinite

from msgspec import Struct

from fleet_smi.hub.inventory import Inventories, missing_from
from fleet_smi.hub.known import Node, Remembered, Turn, Via, recalled
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.settle import Standing
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.uuids import told_apart, uuids_of
from fleet_smi.model.views import NodeParts, summary_of, view_of

__all__ = ["Change", "Fleet", "NodeParts", "Remembered", "Turn", "Via"]

# By so much two ways to one node may differ in when a sample was taken.
_JITTER_SECONDS = 5.0


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """What one snapshot changed; `first` when its node was not known before.

    `at` is when it was taken, by the hub's clock, and `reported` the UUIDs in it. `standings`
    is how all stands after it, and it `stirred` those GPUs and instances where others are than
    before, or hold other memory, and those that are gone. A `late` one fills a hole in what
    came before, and changes nothing of what is believed now.
    """

    snapshot: Snapshot
    at: float
    reported: list[str]
    via: Via | None = None
    first: bool = False
    late: bool = False
    turns: tuple[Turn, ...] = ()
    standings: Mapping[str, Standing] = {}
    stirred: tuple[str, ...] = ()


class Fleet:
    """Every node's latest snapshot, judged."""

    def __init__(self, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> None:
        self.thresholds = thresholds
        self._nodes: dict[str, Node] = {}
        self._inventories = Inventories()
        # Which node each way leads to, as far as is known.
        self._ways: dict[Via, str] = {}
        self._dirty: set[str] = set()

    def apply(self, snapshot: Snapshot, at: float, via: Via | None = None) -> Change | None:
        """Take one snapshot in, taken at `at`; `None` when it came before, or is too old to tell.

        A snapshot without a `run_id` is told from one that came before by its time alone.
        """
        if not (isfinite(snapshot.taken_at) and isfinite(at)):
            return None
        node = self._nodes.get(snapshot.node_id)
        first = node is None
        if node is None:
            node = self._nodes[snapshot.node_id] = Node(snapshot.node_id)
        if via is not None and (via != node.via or node.troubles):
            self._heard(node, via)
        run_id = snapshot.run_id
        if run_id is not None and not node.sequences.add(run_id, snapshot.sequence):
            return None
        if not node.precedes(snapshot, at):
            if run_id is None:
                return None
            self._dirty.add(node.node_id)  # its numbers are remembered
            return Change(snapshot=snapshot, at=at, reported=uuids_of(snapshot), via=via, late=True)
        if 0 < node.at - at <= _JITTER_SECONDS:
            at = node.at
        snapshot = self._take_stock(node, snapshot, at)
        turns = node.take(snapshot, at, self.thresholds)
        self._dirty.add(node.node_id)
        return Change(
            snapshot=snapshot,
            at=at,
            reported=node.reported,
            via=via,
            first=first,
            turns=turns,
            standings=node.standings,
            stirred=node.stirred,
        )

    def expect(self, via: Via) -> None:
        """List a target that is known before anything is heard of it."""
        if via not in self._ways:
            node_id = f"{via.source}:{via.target}"
            node = self._nodes.setdefault(node_id, Node(node_id, via))
            node.ways.add(via)
            self._ways[via] = node_id
            self._dirty.add(node_id)

    def unexpect(self, via: Via) -> None:
        """List a target no longer, unless a node was heard that way."""
        node = self._nodes.get(self._ways.get(via, ""))
        if node is not None and node.snapshot is None:
            self.remove(node.node_id)

    def failed(self, via: Via, words: str, at: float) -> None:
        """A source could not hear a target: told of the node until it is heard that way again.

        It makes no node silent: another source may well hear it.
        """
        self.expect(via)
        node = self._nodes[self._ways[via]]
        heard_since = via == node.via and at < node.at
        if not heard_since and node.troubles.get(via) != words:
            node.troubles[via] = words
            self._dirty.add(node.node_id)

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
            node.arrange()
        given = {**node.given_labels, **(labels or {})}
        node.given_labels = {label: value for label, value in given.items() if value}
        self._dirty.add(node_id)
        return True

    def remove(self, node_id: str) -> bool:
        """Forget a node and its GPUs; false when it is not known."""
        node = self._nodes.pop(node_id, None)
        if node is None:
            return False
        self._inventories.forget(node_id, node.inventory.claims)
        for via in node.ways:
            del self._ways[via]
        self._dirty.add(node_id)
        return True

    def remembered(self, node_id: str) -> Remembered | None:
        """What of a node outlives the hub; `None` for one that is not known or never spoke."""
        node = self._nodes.get(node_id)
        return None if node is None else node.remembered()

    def restore(self, remembered: Remembered) -> None:
        """Take in what was remembered of a node, before anything is heard of it."""
        node = recalled(remembered, self.thresholds)
        self._nodes[node.node_id] = node
        self._inventories.recall(node.node_id, node.inventory)
        self._ways.update(dict.fromkeys(node.ways, node.node_id))
        self._dirty.add(node.node_id)

    def tick(self, now: float) -> None:
        """Mark the nodes that have fallen silent since the last tick as changed."""
        for node in self._nodes.values():
            if node.wake_at < now:
                node.wake_at = inf
                self._dirty.add(node.node_id)

    def take_dirty(self) -> set[str]:
        """The nodes that changed since this was last asked, those that were removed among them."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def view(self, now: float) -> FleetView:
        """The fleet at one moment, nodes in the order of their names."""
        nodes = tuple(self.nodes(now))
        return FleetView(taken_at=now, summary=summary_of(nodes), nodes=nodes)

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Every node in the order of their names, each as it is when it is asked for."""
        for node in sorted(self._nodes.values(), key=lambda node: node.order):
            yield view_of(node.parts(now, self.thresholds))

    def node(self, node_id: str, now: float) -> NodeView | None:
        """One node at one moment; `None` when it is not known."""
        parts = self.parts(node_id, now)
        return None if parts is None else view_of(parts)

    def parts(self, node_id: str, now: float) -> NodeParts | None:
        """One node at one moment, in parts; `None` when it is not known."""
        node = self._nodes.get(node_id)
        return None if node is None else node.parts(now, self.thresholds)

    def latest(self, node_id: str) -> Snapshot | None:
        """The latest snapshot of a node."""
        node = self._nodes.get(node_id)
        return None if node is None else node.snapshot

    def called(self, node_id: str) -> tuple[str, dict[str, str]]:
        """The name and the labels of a node that was heard of."""
        node = self._nodes[node_id]
        own = {} if node.snapshot is None else node.snapshot.labels
        return node.name, own | node.given_labels

    def _heard(self, node: Node, via: Via) -> None:
        """A node was heard this way: its trouble is over, and the target has a name now."""
        other = self._nodes.get(self._ways.get(via, node.node_id))
        if other is not None and other is not node:
            if other.snapshot is None:
                self.remove(other.node_id)
            else:
                other.ways.discard(via)
        self._ways[via] = node.node_id
        node.ways.add(via)
        node.via = via
        if node.troubles.pop(via, None) is not None:
            self._dirty.add(node.node_id)

    def _take_stock(self, node: Node, snapshot: Snapshot, at: float) -> Snapshot:
        """Account for every GPU that was here before; returns the snapshot with each UUID once."""
        reported = uuids_of(snapshot)
        if reported != node.reported and len(set(reported)) < len(reported):
            snapshot = told_apart(snapshot)
            reported = uuids_of(snapshot)
        if reported != node.reported:
            gone = [] if node.snapshot is None else missing_from(node.snapshot, node.at)
            self._inventories.change(node.node_id, node.inventory, gone, snapshot, at)
            node.reported = reported
        if node.inventory.missing:
            self._inventories.drop(node.node_id, node.inventory)
        return snapshot
