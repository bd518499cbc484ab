"""Settings import of `cluster-smi.env` (2018), which was compiled into its programs."""

import re

from fleet_smi.compat.cluster_smi.settings import import_router
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "cluster-smi of 2018"
_LINE = re.compile(r"\s*(?:export\s+)?(\w+)\s*=\s*([\"']?)(.*?)\2\s*")
_PREFIX = "cluster_smi_"
_IP, _TICK = "cluster_smi_server_ip", "cluster_smi_tick_ms"
_NODES, _CLIENTS = "cluster_smi_server_port_gather", "cluster_smi_server_port_distribute"
_MAX_DIGITS = 9


def matches(name: str, text: str) -> bool:
    """Whether the text sets a variable of cluster-smi."""
    return re.search(rf"^\s*(?:export\s+)?{_PREFIX}\w+\s*=", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import the server as a router to poll."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.partition("#")[0])
        if match is None:
            if line.partition("#")[0].strip():
                importer.skip(f"line {number}", "not a setting")
        elif match[1] in (_IP, _NODES, _CLIENTS, _TICK):
            values[match[1]] = match[3]
        else:
            importer.skip(f"line {number}", f"cluster-smi has no {match[1]}")
    import_router(
        importer,
        address=values.get(_IP),
        nodes_port=values.get(_NODES),
        clients_port=values.get(_CLIENTS),
        interval=_seconds(values.get(_TICK), importer),
    )


def _seconds(text: str | None, importer: SettingsImporter) -> str | None:
    if text is None:
        return None
    # isdecimal alone accepts the digits of every script.
    if not (text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS):
        importer.skip("the tick", f"{text!r} is not a number of milliseconds")
        return None
    return f"{int(text) / 1000:g}s"
