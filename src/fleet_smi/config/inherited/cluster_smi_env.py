"""`cluster-smi.env` of 2018: settings that were compiled into its programs."""

import re

from fleet_smi.config.inherited.router import take_router
from fleet_smi.config.inherited.taking import Taking

SYSTEM = "cluster-smi of 2018"
_LINE = re.compile(r"\s*(?:export\s+)?(\w+)\s*=\s*([\"']?)(.*?)\2\s*")
_PREFIX = "cluster_smi_"
_IP, _TICK = "cluster_smi_server_ip", "cluster_smi_tick_ms"
_NODES, _CLIENTS = "cluster_smi_server_port_gather", "cluster_smi_server_port_distribute"
_MOST_DIGITS = 9


def looks_like(name: str, text: str) -> bool:
    """Whether it sets one of these variables."""
    return re.search(rf"^\s*(?:export\s+)?{_PREFIX}\w+\s*=", text, re.MULTILINE) is not None


def read(text: str, into: Taking) -> None:
    """The server becomes a router to ask."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.partition("#")[0])
        if match is None:
            if line.partition("#")[0].strip():
                into.leave(f"line {number}", "it sets nothing")
        elif match[1] in (_IP, _NODES, _CLIENTS, _TICK):
            found[match[1]] = match[3]
        else:
            into.leave(f"line {number}", f"cluster-smi has no {match[1]}")
    take_router(
        into,
        address=found.get(_IP),
        nodes=found.get(_NODES),
        clients=found.get(_CLIENTS),
        tick=_seconds(found.get(_TICK), into),
    )


def _seconds(written: str | None, into: Taking) -> str | None:
    if written is None:
        return None
    if not (written.isdecimal() and written.isascii() and len(written) <= _MOST_DIGITS):
        into.leave("the tick", f"{written!r} is no number of milliseconds")
        return None
    return f"{int(written) / 1000:g}s"
