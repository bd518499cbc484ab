"""What the hub believes now: the latest of every node, and the verdict on each GPU.

Pure: the caller brings the snapshots and the time, always by the hub's own clock.
"""

from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, NodeView, State, Verdict
from fleet_smi.model.settle import Sampled, Standing, follow, follow_instance
from fleet_smi.model.snapshot import Fault, Gpu, Snapshot
from fleet_smi.model.text import natural
from fleet_smi.model.verdict import DEFAULT_THRESHOLDS, Thresholds, silent_after
from fleet_smi.model.views import node_view, silent_view, summary_of

# A node that invents a new UUID with every report must not fill the memory.
_MOST_MISSING = 64
_CLOCK_AHEAD_SECONDS = 60.0


class Turn(Struct, frozen=True, kw_only=True, gc=False):
    """A GPU or instance whose state is another than before; `before` is `None` for a new one."""

    uuid: str
    before: State | None
    after: Verdict


class Change(Struct, frozen=True, kw_only=True):
    """What one snapshot changed; `first` when its node was not known before."""

    snapshot: Snapshot
    received_at: float
    first: bool
    turns: tuple[Turn, ...]


class _Node:
    """The latest of one node."""

    __slots__ = (
        "gpus",
        "missing",
        "order",
        "received_at",
        "snapshot",
        "standings",
        "uuids",
        "view",
    )

    def __init__(self, snapshot: Snapshot, received_at: float) -> None:
        self.snapshot = snapshot
        self.received_at = received_at
        self.order = (natural(snapshot.name), snapshot.node_id)
        self.gpus: tuple[Gpu, ...] = ()
        self.uuids: list[str] = []
        self.missing: dict[str, Gpu] = {}
        self.standings: dict[str, Standing] = {}
        self.view: NodeView | None = None

    def take(self, snapshot: Snapshot, received_at: float) -> None:
        """Let a newer snapshot be the latest."""
        if snapshot.name != self.snapshot.name:
            self.order = (natural(snapshot.name), snapshot.node_id)
        self.snapshot, self.received_at, self.view = snapshot, received_at, None


class Fleet:
    """Every node's latest snapshot, judged."""

    def __init__(self, settings: Thresholds = DEFAULT_THRESHOLDS) -> None:
        self._settings = settings
        self._nodes: dict[str, _Node] = {}
        # Where each GPU was last seen: one that moved is not missing at its old place.
        self._homes: dict[str, str] = {}

    def apply(self, snapshot: Snapshot, received_at: float) -> Change | None:
        """Take one snapshot in; `None` when it is not newer than what is already known."""
        if not isfinite(snapshot.taken_at):
            return None
        node = self._nodes.get(snapshot.node_id)
        first = node is None
        if node is None:
            node = self._nodes[snapshot.node_id] = _Node(snapshot, received_at)
        elif not _is_newer(snapshot, node):
            return None
        self._account_for_all(node, snapshot)
        node.take(snapshot, received_at)
        known, node.standings = node.standings, self._follow(node)
        turns = _turns(known, node.standings)
        return Change(snapshot=snapshot, received_at=received_at, first=first, turns=turns)

    def remove(self, node_id: str) -> None:
        """Forget a node and its GPUs."""
        if self._nodes.pop(node_id, None) is not None:
            self._homes = {uuid: home for uuid, home in self._homes.items() if home != node_id}

    def view(self, now: float) -> FleetView:
        """The fleet at one moment, nodes in the order of their names."""
        ordered = sorted(self._nodes.values(), key=lambda node: node.order)
        nodes = tuple([self._view(node, now) for node in ordered])
        return FleetView(taken_at=now, summary=summary_of(nodes), nodes=nodes)

    def node(self, node_id: str, now: float) -> NodeView | None:
        """One node at one moment; `None` when it is not known."""
        node = self._nodes.get(node_id)
        return None if node is None else self._view(node, now)

    def _follow(self, node: _Node) -> dict[str, Standing]:
        """Judge every GPU and instance of a node's latest, by what is remembered of each."""
        settings, at = self._settings, node.received_at
        skew = at - node.snapshot.taken_at
        sampled = Sampled(at, node.snapshot.interval_seconds, skew)
        known, standings = node.standings, {}
        for gpu in node.gpus:
            for part in gpu.instances:
                before = known.get(part.uuid)
                standings[part.uuid] = follow_instance(before, part, gpu, sampled, settings)
            verdicts = tuple([standings[part.uuid].verdict for part in gpu.instances])
            standings[gpu.uuid] = follow(known.get(gpu.uuid), gpu, sampled, settings, verdicts)
        return standings

    def _account_for_all(self, node: _Node, snapshot: Snapshot) -> None:
        """Keep a row for each GPU that was here before and is not in this snapshot."""
        uuids = [gpu.uuid for gpu in snapshot.gpus]
        if uuids != node.uuids:
            self._homes.update(dict.fromkeys(uuids, snapshot.node_id))
            gone = {gpu.uuid: _gone(gpu, node) for gpu in node.snapshot.gpus}
            node.missing.update(gone)
            node.uuids = uuids
        node.gpus = snapshot.gpus
        if node.missing:
            node.missing = self._still_missing(node, set(uuids))
            node.gpus += tuple([_explained(gpu, snapshot) for gpu in node.missing.values()])

    def _still_missing(self, node: _Node, present: set[str]) -> dict[str, Gpu]:
        home = node.snapshot.node_id
        gone = [
            (uuid, gpu)
            for uuid, gpu in node.missing.items()
            if uuid not in present and self._homes.get(uuid) == home
        ]
        return dict(gone[-_MOST_MISSING:])

    def _view(self, node: _Node, now: float) -> NodeView:
        age = max(0.0, now - node.received_at)
        if node.view is None:
            node.view = node_view(node.snapshot, node.gpus, node.standings)
        limit = silent_after(node.snapshot.interval_seconds, self._settings)
        if limit is not None and age > limit:
            return silent_view(node.view, age, since=node.received_at + limit)
        return replace(node.view, age_seconds=age)


def _is_newer(snapshot: Snapshot, node: _Node) -> bool:
    known = node.snapshot
    if snapshot.taken_at > known.taken_at:
        return True
    if snapshot.boot_id == known.boot_id and snapshot.sequence > known.sequence:
        return True  # the node's clock was set back
    # A clock known to be ahead of ours must not lock its node out until that time has come.
    ahead = known.taken_at > node.received_at + _CLOCK_AHEAD_SECONDS
    return ahead and snapshot.taken_at < known.taken_at


def _turns(before: dict[str, Standing], after: dict[str, Standing]) -> tuple[Turn, ...]:
    turns = []
    for uuid, standing in after.items():
        known = before.get(uuid)
        state = None if known is None else known.verdict.state
        if state != standing.verdict.state:
            turns.append(Turn(uuid=uuid, before=state, after=standing.verdict))
    return tuple(turns)


def _gone(gpu: Gpu, node: _Node) -> Gpu:
    """What stays known of a GPU that is no longer there: what it is, and when it was seen."""
    return Gpu(
        uuid=gpu.uuid,
        index=gpu.index,
        vendor=gpu.vendor,
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_shared=gpu.memory_shared,
        fault=Fault(kind="missing", detail="missing", since=node.snapshot.taken_at),
    )


def _explained(gpu: Gpu, snapshot: Snapshot) -> Gpu:
    """A missing GPU, unless the reading of its kind failed: then it is only unreadable."""
    for run in snapshot.runs:
        if run.outcome == "failed" and run.name.startswith(gpu.vendor):
            since = None if gpu.fault is None else gpu.fault.since
            kind = run.fault or "unreadable"
            return replace(gpu, fault=Fault(kind=kind, detail=run.detail, since=since))
    return gpu
