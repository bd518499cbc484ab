"""The collector contract: plain values from a binding in, a typed part of a snapshot out."""

from functools import cache
from importlib import import_module
from typing import Any, Protocol

from msgspec import Struct

from fleet_smi.model.snapshot import Gpu, Host, Lease, Process


class SnapshotPart(Struct, frozen=True, kw_only=True):
    """What one collector adds to a snapshot."""

    gpus: tuple[Gpu, ...] = ()
    host: Host = Host()
    node_id: str | None = None
    name: str | None = None
    boot_id: str | None = None
    processes: dict[int, Process] = {}
    leases: dict[str, Lease] = {}


class Collector(Protocol):
    """Turns what one binding read into a typed part of a snapshot.

    The binding, named in the collector's row of `COLLECTORS`, runs in the reader. It returns
    plain values (dict, list, str, int, float, bytes, None), raises `NotPresent` when this machine
    has no such subject and `ReadFailed` when it has one that cannot be read.
    """

    name: str

    def parse(self, raw: Any) -> SnapshotPart:
        """Make the typed part of what was read. Pure; never a made-up value."""


@cache
def load_collector(name: str) -> Collector:
    """Import the collector of that name: class `NvidiaSmiCollector` in `nvidia_smi.py`."""
    module = import_module(f"fleet_smi.node.collectors.{name}")
    collector: Collector = getattr(module, f"{name.title().replace('_', '')}Collector")()
    return collector
