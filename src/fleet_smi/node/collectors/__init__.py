"""One subject a file; this is the list of all of them, in the order they are asked.

A collector is imported when its subject has answered: a machine without AMD cards does not
pay for reading them.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_smi.node.sampler import Collector

COLLECTORS: tuple[str, ...] = (
    "nvidia",
    "nvidia_smi",
    "nvidia_kernel",
    "amd",
    "amd_smi",
    "rocm_smi",
    "intel",
    "xpu_smi",
    "host",
    "network",
    "processes",
)


@cache
def load_collector(name: str) -> "Collector":
    """The collector of that name: class `NvidiaSmiCollector` in `nvidia_smi.py`."""
    module = import_module(f"fleet_smi.node.collectors.{name}")
    found: Collector = getattr(module, f"{name.title().replace('_', '')}Collector")()
    return found
