"""Fallback for AMD and Intel GPUs: the vendor's program, where the kernel's files give too little.

In a container without `/sys/class/drm` the files list no GPU at all; Intel's drivers give load
and memory to root only.
"""

import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from fleet_smi.errors import CollectError, NotAnswering
from fleet_smi.model.snapshot import Gpu
from fleet_smi.node.collectors import COLLECTORS

# NVIDIA's fallbacks are read by `snapshot_builder.py`: they depend on how NVML failed.
FALLBACKS: dict[str, tuple[str, ...]] = {
    vendor: tuple(entry.name for entry in COLLECTORS if entry.fallback_for == vendor)
    for vendor in dict.fromkeys(entry.fallback_for for entry in COLLECTORS)
    if vendor is not None and vendor != "nvidia"
}
"""Collector of the kernel's files -> collectors of programs, best first."""

# A service does not always have ROCm on its PATH.
MORE_FOLDERS = ("/opt/rocm/bin",)
FindProgram = Callable[[str], str | None]
# Never filled in from the program: identity, and what is never `None`.
_NOT_FILLED = ("uuid", "uuid_is_made", "index", "vendor", "unread", "fault")


def find_program(collector: str) -> str | None:
    """Return the path of the collector's program, `None` where it is not installed."""
    name = collector.replace("_", "-")
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *MORE_FOLDERS]
    paths = (f"{folder}/{name}" for folder in folders if folder)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def needs_program(gpus: Sequence[Gpu], error: CollectError | None) -> bool:
    """Return whether the vendor's program may read more than its driver's files give."""
    if error is not None or not gpus:
        # In a driver that hangs, the program would hang as well.
        return not isinstance(error, NotAnswering)
    # The program would wake a GPU that sleeps.
    if any(gpu.asleep or gpu.fault is not None for gpu in gpus):
        return False
    # All, not any: one GPU with figures shows that the files can be read.
    return all(
        gpu.memory_used_bytes is None and (gpu.busy_percent is None or not gpu.memory_shared)
        for gpu in gpus
    )


def fill_in(gpus: Sequence[Gpu], from_program: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs of the files with the figures of the program, and those it alone has."""
    others = list(from_program)
    filled = []
    for gpu in gpus:
        match = next((other for other in others if _is_same(gpu, other)), None)
        if match is not None:
            others.remove(match)
            gpu = _with_figures(gpu, match)  # noqa: PLW2901
        filled.append(gpu)
    return (*filled, *others)


def _is_same(gpu: Gpu, other: Gpu) -> bool:
    # By address first: the program's UUID may differ from the one made up from the files.
    same_place = gpu.pci_bus_id is not None and gpu.pci_bus_id == other.pci_bus_id
    return same_place or gpu.uuid == other.uuid


def _with_figures(gpu: Gpu, other: Gpu) -> Gpu:
    fields = [field for field in gpu.__struct_fields__ if field not in _NOT_FILLED]
    figures = {
        field: getattr(other, field)
        for field in fields
        if getattr(gpu, field) is None and getattr(other, field) is not None
    }
    unread = {field: why for field, why in gpu.unread.items() if field not in figures}
    return replace(gpu, **figures, unread=unread)
