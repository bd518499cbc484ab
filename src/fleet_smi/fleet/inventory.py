"""Inventory of GPUs per node: a missing GPU stays listed, unless it was moved to another node."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Snapshot
from fleet_smi.model.uuids import snapshot_uuids, with_unique_uuids

if TYPE_CHECKING:
    from fleet_smi.fleet.node_state import NodeState

# A node that invents a new UUID with every report must not fill the memory.
_MAX_MISSING = 64
# How long reports of a clone may be taken for those of the first machine (`identity.py`).
_MAX_MISTAKEN_SECONDS = 4.0
# How long another node must report a GPU until that is called a move, and until its old node
# lists it no longer.
_MOVED_SECONDS, _SETTLED_SECONDS = 3_600.0, 86_400.0


class MissingGpu(Struct, frozen=True, gc=False):
    """A GPU that is no longer reported, and when it last was, by the hub's clock."""

    gpu: Gpu
    seen_at: float


class NewHome(NamedTuple):
    """Another node that reports a missing GPU: its UUIDs in its latest report, and when that was.

    Only one that `has_credential` is known to be the machine that it says it is.
    """

    name: str
    uuids: Collection[str]
    reported_at: float
    has_credential: bool


class Inventory(Struct, omit_defaults=True):
    """The GPUs of one node: when each was first reported, and those that are missing now."""

    claims: dict[str, float] = {}
    missing: dict[str, MissingGpu] = {}

    def copy(self) -> "Inventory":
        """Return a copy that later changes do not affect."""
        return Inventory(dict(self.claims), dict(self.missing))

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        self.claims = {uuid: since + seconds for uuid, since in self.claims.items()}
        self.missing = {
            uuid: replace(entry, seen_at=entry.seen_at + seconds)
            for uuid, entry in self.missing.items()
        }


class InventoryIndex:
    """Which node reported each GPU last, over the whole fleet."""

    def __init__(self) -> None:
        # UUID -> the node that claimed it last, and when.
        self._last_claims: dict[str, tuple[str, float]] = {}

    def restore(self, node_id: str, inventory: Inventory) -> None:
        """Add the inventory of a node from its checkpoint."""
        # Checkpoints come in any order: the latest claim wins, as it did before the restart.
        for uuid, since in inventory.claims.items():
            if uuid not in self._last_claims or self._last_claims[uuid][1] < since:
                self._last_claims[uuid] = node_id, since

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        claims = self._last_claims.items()
        self._last_claims = {uuid: (node_id, at + seconds) for uuid, (node_id, at) in claims}

    def forget(self, node_id: str, uuids: Iterable[str]) -> None:
        """Drop the claims of this node to these GPUs."""
        for uuid in uuids:
            if self._last_claims.get(uuid, ("", 0.0))[0] == node_id:
                del self._last_claims[uuid]

    def update(
        self,
        node_id: str,
        inventory: Inventory,
        gone: Sequence[MissingGpu],
        snapshot: Snapshot,
        at: float,
    ) -> None:
        """Claim the GPUs that a node reports newly, and list those of `gone` that it lacks.

        `gone` are all GPUs of its snapshot before.
        """
        for missing_gpu in gone:
            inventory.missing[missing_gpu.gpu.uuid] = missing_gpu
        for gpu in snapshot.gpus:
            inventory.missing.pop(gpu.uuid, None)
            if gpu.uuid not in inventory.claims:
                inventory.claims[gpu.uuid] = at
                self._last_claims[gpu.uuid] = node_id, at
        present = {_slot(gpu): gpu for gpu in snapshot.gpus}
        missing = inventory.missing.items()
        renamed = [uuid for uuid, entry in missing if _is_renamed(entry.gpu, present)]
        self._drop_missing(node_id, inventory, renamed)

    def prune(self, node_id: str, inventory: Inventory, twins: Collection[str]) -> None:
        """Drop missing GPUs that were never here, and the oldest beyond the limit.

        `twins` are nodes with the machine-id of this one: the first reports of a clone were taken
        for reports of this node, until both were known to run.
        """
        missing, claims = inventory.missing, inventory.claims
        if twins:
            for uuid, entry in list(missing.items()):
                is_brief = entry.seen_at - claims[uuid] <= _MAX_MISTAKEN_SECONDS
                if is_brief and self._new_home(node_id, uuid, entry) in twins:
                    del missing[uuid], claims[uuid]
        # In the order of insertion: the first have been missing longest.
        self._drop_missing(node_id, inventory, list(missing)[:-_MAX_MISSING])

    def note_moves(
        self,
        node_id: str,
        inventory: Inventory,
        find_home: Callable[[str], NewHome | None],
        at: float,
    ) -> None:
        """Note for each missing GPU which other node reports it since; drop one that was moved.

        Any node can report any UUID, and must not hide the GPU of another: it stays listed for a
        day, and for ever where the other node has no credential.
        """
        settled = []
        for uuid, entry in inventory.missing.items():
            home_id = self._new_home(node_id, uuid, entry)
            home = None if home_id is None else find_home(home_id)
            moved_for = 0.0 if home is None else self._moved_seconds(uuid, home, at)
            if moved_for >= _SETTLED_SECONDS:
                settled.append(uuid)
            remedy = None if home is None else f"{home.name} reports it now"
            if home is not None and moved_for >= _MOVED_SECONDS:
                remedy = f"moved to {home.name}"
            fault = entry.gpu.fault
            if fault is not None and fault.remedy != remedy:
                gpu = replace(entry.gpu, fault=replace(fault, remedy=remedy))
                inventory.missing[uuid] = replace(entry, gpu=gpu)
        self._drop_missing(node_id, inventory, settled)

    def _moved_seconds(self, uuid: str, home: NewHome, at: float) -> float:
        """Return for how long another node, which is there now, has reported a missing GPU."""
        is_there = uuid in home.uuids and at - home.reported_at < _MOVED_SECONDS
        return at - self._last_claims[uuid][1] if is_there and home.has_credential else 0.0

    def _drop_missing(self, node_id: str, inventory: Inventory, uuids: Sequence[str]) -> None:
        for uuid in uuids:
            del inventory.missing[uuid], inventory.claims[uuid]
        self.forget(node_id, uuids)

    def _new_home(self, node_id: str, uuid: str, missing: MissingGpu) -> str | None:
        # Two nodes that claim one GPU at the same time are no move: two agents on one machine.
        home, since = self._last_claims.get(uuid, (node_id, 0.0))
        return home if home != node_id and since > missing.seen_at else None


def _slot(gpu: Gpu) -> tuple[str, int]:
    return gpu.vendor, gpu.index


def _is_renamed(gone: Gpu, present: dict[tuple[str, int], Gpu]) -> bool:
    """Return whether the same device changed from a placeholder id to its UUID, or back."""
    now = present.get(_slot(gone))
    if now is None or now.uuid_is_made == gone.uuid_is_made:
        return False
    return None in (now.pci_bus_id, gone.pci_bus_id) or now.pci_bus_id == gone.pci_bus_id


def missing_gpus_from(snapshot: Snapshot, seen_at: float) -> list[MissingGpu]:
    """Return the GPUs of a snapshot as they are listed once a later one lacks them."""
    return [MissingGpu(_as_missing(gpu, snapshot.taken_at), seen_at) for gpu in snapshot.gpus]


def gpus_with_missing(snapshot: Snapshot, inventory: Inventory) -> tuple[Gpu, ...]:
    """Return the GPUs of a snapshot, followed by those that are missing from it."""
    if not inventory.missing:
        return snapshot.gpus
    missing = [_with_collector_fault(entry.gpu, snapshot) for entry in inventory.missing.values()]
    return (*snapshot.gpus, *missing)


def _as_missing(gpu: Gpu, last_seen: float) -> Gpu:
    """Return the GPU with its identity only, and the fault `missing` since it was last seen."""
    return Gpu(
        uuid=gpu.uuid,
        uuid_is_made=gpu.uuid_is_made,
        index=gpu.index,
        vendor=gpu.vendor,
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_shared=gpu.memory_shared,
        fault=Fault(kind="missing", detail="missing", since=last_seen),
    )


def _with_collector_fault(gpu: Gpu, snapshot: Snapshot) -> Gpu:
    """Return the missing GPU, with the collector's failure as its fault where it failed."""
    for run in snapshot.runs:
        if run.outcome == "failed" and run.name.startswith(gpu.vendor):
            since = None if gpu.fault is None else gpu.fault.since
            kind = run.fault or "unreadable"
            return replace(gpu, fault=Fault(kind=kind, detail=run.detail, since=since))
    return gpu


def track_gpus(
    node: "NodeState", inventories: InventoryIndex, snapshot: Snapshot, at: float
) -> Snapshot:
    """Track GPUs that appeared or went missing; return the snapshot with unique UUIDs."""
    reported = snapshot_uuids(snapshot)
    # The list of UUIDs hardly ever changes, and comparing it is all that most reports cost.
    if reported != node.reported_uuids and len(set(reported)) < len(reported):
        snapshot = with_unique_uuids(snapshot)
        reported = snapshot_uuids(snapshot)
    if reported != node.reported_uuids:
        gone = [] if node.snapshot is None else missing_gpus_from(node.snapshot, node.at)
        inventories.update(node.node_id, node.inventory, gone, snapshot, at)
        node.reported_uuids = reported
    return snapshot
