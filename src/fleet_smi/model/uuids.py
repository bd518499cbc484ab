"""The UUIDs of a node's GPUs and instances: each of them must be one thing's alone."""

from collections import Counter
from typing import TypeVar

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Instance, Snapshot

_LONGEST_STEM = 120
_Device = TypeVar("_Device", Gpu, Instance)


def snapshot_uuids(snapshot: Snapshot) -> list[str]:
    """The UUIDs of all GPUs and instances, as they are reported."""
    uuids = []
    for gpu in snapshot.gpus:
        uuids.append(gpu.uuid)
        if gpu.instances:
            uuids += [part.uuid for part in gpu.instances]
    return uuids


def with_unique_uuids(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every UUID once: the second that is called "GPU-a" is "GPU-a#2"."""
    reported, taken, counts = set(snapshot_uuids(snapshot)), {""}, Counter[str]()

    def own(uuid: str) -> str:
        name, stem = uuid, uuid[:_LONGEST_STEM] or "of-unknown-uuid"
        while name in taken or (name != uuid and name in reported):
            counts[stem] += 1
            name = f"{stem}#{counts[stem] + 1}"
        taken.add(name)
        return name

    def renamed(one: _Device) -> _Device:
        name = own(one.uuid)
        return one if name == one.uuid else replace(one, uuid=name, uuid_is_made=True)

    gpus = [renamed(gpu) for gpu in snapshot.gpus]
    gpus = [replace(gpu, instances=tuple(map(renamed, gpu.instances))) for gpu in gpus]
    return replace(snapshot, gpus=tuple(gpus))
