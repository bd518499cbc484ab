"""Registries of other systems' commands and formats: name → module, imported on first use.

Each entry is one line that names a module by its path, so that `fleet_smi.compat` is never imported
by the commands themselves, and a format is removed by deleting its line.
"""

from importlib import import_module
from typing import Any

LIKE_COMMANDS: dict[str, str] = {
    "cluster-smi": "fleet_smi.compat.cluster_smi.command",
    "gpustat": "fleet_smi.compat.gpustat.command",
    "nvgpu": "fleet_smi.compat.nvgpu.command",
}
"""`fleet-smi like NAME`. A module has `HELP`, `EXAMPLES`, `add_arguments(parser)` and `run(args)`;
the flags that select a fleet are added for it."""

STATUS_FORMATS: dict[str, str] = {
    "gpustat": "fleet_smi.compat.gpustat.table",
}
"""`fleet-smi status --format NAME`. A module has `render_status(view, colour=…) -> str`."""

STATUS_STYLES: dict[str, str] = {
    "box": "fleet_smi.compat.cluster_smi.table",
}
"""`fleet-smi status --style NAME`. A module has `render_status(view, colour=…) -> str`."""

RENDER_FILES: dict[str, str] = {
    "load_data.csv": "fleet_smi.compat.web_gpu_monitor.codec",
}
"""Files that `fleet-smi render` writes beside `index.html`. A module has `encode(view) -> str`."""

SETTINGS_FORMATS: tuple[str, ...] = (
    "fleet_smi.compat.web_gpu_monitor.settings",
    "fleet_smi.compat.cluster_smi.settings_env",
    "fleet_smi.compat.cluster_smi.settings_yml",
    "fleet_smi.compat.nvgpu.settings",
    "fleet_smi.compat.gpustat.settings_crontab",
    "fleet_smi.compat.gpustat.settings",
    "fleet_smi.compat.node_info.settings",
)
"""Settings files that `fleet-smi migrate` reads, in the order in which they are tried: a plain list
of hosts has the weakest signature and comes last. A module has `SYSTEM_NAME`, `matches(name, text)`
and `import_file(text, importer)`; it reads the file as data and executes nothing."""


def load_format(path: str) -> Any:
    """Import the module that a registry entry names."""
    return import_module(path)
