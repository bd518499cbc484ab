"""Registry of collectors: one row per subject that is read, in the order of reading.

The row is all the wiring there is: the reader loads the binding from it, the sampler plans its
reads by it and loads the collector. Nothing is imported here, so that a machine without AMD
cards never imports what parses them.
"""

from typing import NamedTuple


class CollectorEntry(NamedTuple):
    """One collector: `NvidiaSmiCollector` in `nvidia_smi.py` for the name `nvidia_smi`."""

    name: str
    binding: str
    """`module:name` below `fleet_smi.node.bindings`: a function, or a class with `read`."""
    is_driver: bool = False
    """Whether it reads from a GPU driver: if it hangs, the driver is reported as not answering."""
    is_quick: bool = True
    """Whether every command reads it, or only those that show everything."""
    fallback_for: str | None = None
    """The collector that it replaces where that one fails; several are tried in order."""
    absence_is_cached: bool = False
    """Whether a machine without such hardware is not checked again for a while."""


COLLECTORS: tuple[CollectorEntry, ...] = (
    CollectorEntry("nvidia", "nvml:NvmlReader", is_driver=True),
    CollectorEntry("nvidia_smi", "nvidia_smi:read", is_driver=True, fallback_for="nvidia"),
    CollectorEntry("nvidia_kernel", "nvidia_kernel:read", fallback_for="nvidia"),
    CollectorEntry("amd", "amdgpu:read", is_driver=True, absence_is_cached=True),
    CollectorEntry(
        "amd_smi", "amd_smi:read", is_driver=True, fallback_for="amd", absence_is_cached=True
    ),
    CollectorEntry(
        "rocm_smi", "rocm_smi:read", is_driver=True, fallback_for="amd", absence_is_cached=True
    ),
    CollectorEntry("intel", "intel_gpu:read", is_driver=True, absence_is_cached=True),
    CollectorEntry(
        "xpu_smi", "xpu_smi:read", is_driver=True, fallback_for="intel", absence_is_cached=True
    ),
    CollectorEntry("host", "host:HostReader"),
    CollectorEntry("network", "network:NetworkReader", is_quick=False),
    CollectorEntry("leases", "leases:read"),
    # Last: it looks up the pids that the collectors above have found.
    CollectorEntry("processes", "processes:ProcessReader"),
)

ALL_SUBJECTS = tuple(entry.name for entry in COLLECTORS if entry.fallback_for is None)
QUICK_SUBJECTS = tuple(
    entry.name for entry in COLLECTORS if entry.fallback_for is None and entry.is_quick
)
