"""Which GPUs each node has had: one that is gone keeps its row, unless it is elsewhere now."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Instance, Snapshot

# A node that invents a new UUID with every report must not fill the memory.
_MOST_MISSING = 64
Device = TypeVar("Device", Gpu, Instance)


class MissingGpu(Struct, frozen=True, gc=False):
    """A GPU that is no longer there, and when it was last seen by the hub's clock."""

    gpu: Gpu
    seen_at: float


class Inventory(Struct, omit_defaults=True):
    """The GPUs of one node: since when each is here, and those that are gone."""

    claims: dict[str, float] = {}
    missing: dict[str, MissingGpu] = {}

    def copy(self) -> "Inventory":
        """The same, to be kept while this one goes on changing."""
        return Inventory(dict(self.claims), dict(self.missing))


class InventoryIndex:
    """The GPUs of every node, and where each was claimed last."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[str, float]] = {}

    def restore(self, node_id: str, inventory: Inventory) -> None:
        """Take in what was remembered of a node."""
        for uuid, since in inventory.claims.items():
            if uuid not in self._homes or self._homes[uuid][1] < since:
                self._homes[uuid] = node_id, since

    def forget(self, node_id: str, uuids: Iterable[str]) -> None:
        """These are no longer claimed by this node."""
        for uuid in uuids:
            if self._homes.get(uuid, ("", 0.0))[0] == node_id:
                del self._homes[uuid]

    def update(
        self,
        node_id: str,
        inventory: Inventory,
        gone: Sequence[MissingGpu],
        snapshot: Snapshot,
        at: float,
    ) -> None:
        """A node reports other GPUs than before: claim the new ones, and miss those `gone`."""
        for one in gone:
            inventory.missing[one.gpu.uuid] = one
        for gpu in snapshot.gpus:
            inventory.missing.pop(gpu.uuid, None)
            if gpu.uuid not in inventory.claims:
                inventory.claims[gpu.uuid] = at
                self._homes[gpu.uuid] = node_id, at
        here = {_place(gpu): gpu for gpu in snapshot.gpus}
        missing = inventory.missing.items()
        renamed = [uuid for uuid, one in missing if _is_renamed(one.gpu, here)]
        self._stop_missing(node_id, inventory, renamed)

    def prune(self, node_id: str, inventory: Inventory) -> None:
        """Stop missing what has moved to another node, and what is too much."""
        missing, claims = inventory.missing, inventory.claims
        moved = [uuid for uuid, one in missing.items() if self._moved(node_id, uuid, one)]
        for uuid in moved:
            del missing[uuid], claims[uuid]
        self._stop_missing(node_id, inventory, list(missing)[:-_MOST_MISSING])

    def _stop_missing(self, node_id: str, inventory: Inventory, uuids: Sequence[str]) -> None:
        for uuid in uuids:
            del inventory.missing[uuid], inventory.claims[uuid]
        self.forget(node_id, uuids)

    def _moved(self, node_id: str, uuid: str, missing: MissingGpu) -> bool:
        # Two nodes that claim one GPU at the same time are no move: two agents on one machine.
        home, since = self._homes.get(uuid, (node_id, 0.0))
        return home != node_id and since > missing.seen_at


def _place(gpu: Gpu) -> tuple[str, int]:
    return gpu.vendor, gpu.index


def _is_renamed(gone: Gpu, here: dict[tuple[str, int], Gpu]) -> bool:
    """Whether it is still here, and went by its place before and goes by its UUID now, or back."""
    now = here.get(_place(gone))
    if now is None or now.uuid_is_made == gone.uuid_is_made:
        return False
    return None in (now.pci_bus_id, gone.pci_bus_id) or now.pci_bus_id == gone.pci_bus_id


def missing_gpus_from(snapshot: Snapshot, seen_at: float) -> list[MissingGpu]:
    """The GPUs of a snapshot as they are to be shown when the next has them no more."""
    return [MissingGpu(_gone(gpu, snapshot.taken_at), seen_at) for gpu in snapshot.gpus]


def gpus_with_missing(snapshot: Snapshot, inventory: Inventory) -> tuple[Gpu, ...]:
    """The GPUs of a snapshot, and those that it should have had."""
    if not inventory.missing:
        return snapshot.gpus
    missing = [_explained(one.gpu, snapshot) for one in inventory.missing.values()]
    return (*snapshot.gpus, *missing)


def _gone(gpu: Gpu, last_seen: float) -> Gpu:
    """What stays known of a GPU that is no longer there: what it is, and when it was seen."""
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


def _explained(gpu: Gpu, snapshot: Snapshot) -> Gpu:
    """A missing GPU, unless the reading of its kind failed: then it is only unreadable."""
    for run in snapshot.runs:
        if run.outcome == "failed" and run.name.startswith(gpu.vendor):
            since = None if gpu.fault is None else gpu.fault.since
            kind = run.fault or "unreadable"
            return replace(gpu, fault=Fault(kind=kind, detail=run.detail, since=since))
    return gpu
