"""The registry of sources: how the hub receives snapshots, and which settings enable each way.

Modules are named, not imported: a hub that uses no ssh never loads the ssh source, nor one that
polls no older system anything below `fleet_smi.compat`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.errors import Unreachable
    from fleet_smi.fleet.delivery import Source
    from fleet_smi.model.snapshot import Snapshot

    FileDecoder = Callable[[bytes, str, float], tuple[Snapshot | Unreachable, ...]]
    """Decode the content of a file: its bytes, the host it is named for, when it was written."""


class SourceEntry(NamedTuple):
    """A module with `create_sources(settings)`, and the `hub` settings that enable it."""

    module: str
    enabled_by: tuple[str, ...]


SOURCES: dict[str, SourceEntry] = {
    # No setting: the HTTP server creates this one and hands it every report it receives.
    "push": SourceEntry("fleet_smi.hub.sources.push", ()),
    "pull": SourceEntry("fleet_smi.hub.sources.pull", ("pull",)),
    "files": SourceEntry("fleet_smi.hub.sources.files", ("files",)),
    "ssh": SourceEntry("fleet_smi.hub.sources.ssh", ("ssh", "ssh_hosts_file")),
    "nvgpu": SourceEntry("fleet_smi.compat.nvgpu.source", ("nvgpu",)),
    "node_info": SourceEntry("fleet_smi.compat.node_info.source", ("node_info",)),
    "cluster-smi": SourceEntry(
        "fleet_smi.compat.cluster_smi.source", ("cluster_smi_nodes", "cluster_smi_routers")
    ),
    # It reads this machine's drivers: code of the `node` package, which `hub` may not import.
    "self": SourceEntry("fleet_smi.local", ("include_self",)),
}

# How `files` decodes what is not a report of fleet-smi; without an entry it rejects such files.
FILE_DECODERS: dict[str, str] = {
    "gpustat": "fleet_smi.compat.gpustat.codec:decode_gpustat",
}


def build_sources(settings: "Settings") -> list["Source"]:
    """Create every source that the settings enable, in the order of the registry."""
    sources: list[Source] = []
    for entry in SOURCES.values():
        if any(getattr(settings.hub, name) for name in entry.enabled_by):
            sources.extend(import_module(entry.module).create_sources(settings))
    return sources


def load_file_decoder() -> "FileDecoder | None":
    """Import the decoder of files that are not reports, if one is registered."""
    path = next(iter(FILE_DECODERS.values()), None)
    if path is None:
        return None
    module, _, function = path.partition(":")
    decoder: FileDecoder = getattr(import_module(module), function)
    return decoder
