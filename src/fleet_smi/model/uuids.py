"""The UUIDs of a snapshot: listed, and made unique where two devices report the same one."""

from collections import Counter
from typing import TypeVar

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Instance, Snapshot

_MAX_STEM_LENGTH = 120  # leaves room for the suffix within the 128 characters of a report
_Device = TypeVar("_Device", Gpu, Instance)


def snapshot_uuids(snapshot: Snapshot) -> list[str]:
    """Return the UUIDs of all GPUs and instances, as they are reported."""
    uuids = []
    for gpu in snapshot.gpus:
        uuids.append(gpu.uuid)
        if gpu.instances:
            uuids += [instance.uuid for instance in gpu.instances]
    return uuids


def with_unique_uuids(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with unique UUIDs: the second "GPU-a" becomes "GPU-a#2"."""
    reported, taken, counts = set(snapshot_uuids(snapshot)), {""}, Counter[str]()

    def unique(uuid: str) -> str:
        name, stem = uuid, uuid[:_MAX_STEM_LENGTH] or "of-unknown-uuid"
        # Counted per stem, so that a thousand equal UUIDs do not take quadratic time. A number is
        # skipped where a device already reports that very name.
        while name in taken or (name != uuid and name in reported):
            counts[stem] += 1
            name = f"{stem}#{counts[stem] + 1}"
        taken.add(name)
        return name

    def renamed(device: _Device) -> _Device:
        name = unique(device.uuid)
        return device if name == device.uuid else replace(device, uuid=name, uuid_is_made=True)

    gpus = [renamed(gpu) for gpu in snapshot.gpus]
    gpus = [replace(gpu, instances=tuple(map(renamed, gpu.instances))) for gpu in gpus]
    return replace(snapshot, gpus=tuple(gpus))
