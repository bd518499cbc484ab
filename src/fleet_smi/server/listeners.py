"""The registry of listeners: ports beside HTTP on which a hub answers clients of older systems."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from fleet_smi.config.settings import HubSettings
    from fleet_smi.hub.hub import Hub


class Listener(Protocol):
    """A bound port; nothing is answered before `run`."""

    async def run(self) -> None:
        """Answer until cancelled."""


class ListenerEntry(NamedTuple):
    """A module with `create_listener(settings, hub)`, and the `hub` setting that enables it."""

    module: str
    enabled_by: str


LISTENERS: dict[str, ListenerEntry] = {
    "cluster-smi": ListenerEntry("fleet_smi.compat.cluster_smi.server", "cluster_smi_clients"),
}


def build_listeners(settings: "HubSettings", hub: "Hub") -> dict[str, Listener]:
    """Bind every listener that the settings enable; raise `UsageError` where one cannot be."""
    return {
        name: import_module(entry.module).create_listener(settings, hub)
        for name, entry in LISTENERS.items()
        if getattr(settings, entry.enabled_by) is not None
    }
