"""fleet-smi: which GPUs are free, who has the rest, and are they really using them?

>>> import fleet_smi
>>> for gpu in fleet_smi.gpus():
...     print(gpu.index, gpu.name, gpu.verdict.state, gpu.verdict.reason)
>>> fleet_smi.free(n=2, min_free="20GiB")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "Fleet",
    "__version__",
    "available_gpus",
    "free",
    "gpu_info",
    "gpus",
    "lease",
    "snapshot",
]

if TYPE_CHECKING:
    from fleet_smi.api import Fleet, available_gpus, free, gpu_info, gpus, lease, snapshot


def __getattr__(name: str) -> object:
    # Imported on first use: the command line imports this package too and needs none of it.
    if name in __all__:
        from fleet_smi import api

        return getattr(api, name)
    raise AttributeError(f"module 'fleet_smi' has no attribute {name!r}")
