"""The settings of the systems that came before, one format a file: what ours they become.

A file has `SYSTEM`, whose settings it reads, `looks_like(name, text)`, and `read(text, into)`.
All of them are read as data: nothing is executed, nothing is looked up.
"""

from importlib import import_module
from typing import Any

from fleet_smi.compat.settings_import.importer import SettingsImporter
from fleet_smi.errors import UsageError

IMPORT_FORMATS: tuple[str, ...] = (
    "fleet_smi.compat.web_gpu_monitor.settings",
    "fleet_smi.compat.cluster_smi.settings_env",
    "fleet_smi.compat.cluster_smi.settings_yml",
    "fleet_smi.compat.nvgpu.settings",
    "fleet_smi.compat.settings_import.crontab",
    "fleet_smi.compat.gpustat.settings",
    "fleet_smi.compat.settings_import.hosts_txt",
)
"""In the order in which they are tried: a list of hosts says least about itself."""


def import_settings(name: str, text: str, importer: SettingsImporter) -> None:
    """Read one file into `into`; raise `UsageError` where it is of no kind that is known."""
    reader = _reader(name, text)
    if reader is None:
        raise UsageError(
            f"{name} is no settings file that is known: give a hosts.txt, a config.ini of "
            "web-gpu-monitor, the AGENTS file of nvgpu, cluster-smi.env or .yml, or a crontab"
        )
    importer.start_file(name, reader.SYSTEM)
    reader.read(text, importer)


def _reader(name: str, text: str) -> Any:
    modules = map(import_module, IMPORT_FORMATS)
    return next((each for each in modules if each.looks_like(name, text)), None)
