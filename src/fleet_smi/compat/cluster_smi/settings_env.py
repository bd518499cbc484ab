"""`cluster-smi.env` of 2018: settings that were compiled into its programs."""

import re

from fleet_smi.compat.cluster_smi.settings import import_router
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "cluster-smi of 2018"
_LINE = re.compile(r"\s*(?:export\s+)?(\w+)\s*=\s*([\"']?)(.*?)\2\s*")
_PREFIX = "cluster_smi_"
_IP, _TICK = "cluster_smi_server_ip", "cluster_smi_tick_ms"
_NODES, _CLIENTS = "cluster_smi_server_port_gather", "cluster_smi_server_port_distribute"
_MOST_DIGITS = 9


def matches(name: str, text: str) -> bool:
    """Whether it sets one of these variables."""
    return re.search(rf"^\s*(?:export\s+)?{_PREFIX}\w+\s*=", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """The server becomes a router to ask."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.partition("#")[0])
        if match is None:
            if line.partition("#")[0].strip():
                importer.skip(f"line {number}", "it sets nothing")
        elif match[1] in (_IP, _NODES, _CLIENTS, _TICK):
            found[match[1]] = match[3]
        else:
            importer.skip(f"line {number}", f"cluster-smi has no {match[1]}")
    import_router(
        importer,
        address=found.get(_IP),
        nodes_port=found.get(_NODES),
        clients_port=found.get(_CLIENTS),
        interval=_seconds(found.get(_TICK), importer),
    )


def _seconds(written: str | None, into: SettingsImporter) -> str | None:
    if written is None:
        return None
    if not (written.isdecimal() and written.isascii() and len(written) <= _MOST_DIGITS):
        into.skip("the tick", f"{written!r} is no number of milliseconds")
        return None
    return f"{int(written) / 1000:g}s"
