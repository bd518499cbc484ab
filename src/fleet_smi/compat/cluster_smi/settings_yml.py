"""`cluster-smi.yml` of 2019: five keys, read without knowing the rest of YAML."""

import re

from fleet_smi.compat.cluster_smi.settings import import_router
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "cluster-smi of 2019"
_KEYS = ("tick", "timeout", "router_ip", "ports.nodes", "ports.clients")
_LINE = re.compile(r"""(\s*)([\w-]+)\s*:(?:\s+(["']?)(.*?)\3)?\s*""")
_PAIR = re.compile(r"""\s*["']?(\w+)["']?\s*:\s*["']?([\w.-]+)["']?\s*""")
_SILENCE = "here a node is silent after verdict.silent_after missed reports"


def matches(name: str, text: str) -> bool:
    """Whether it names a router, or ports under a YAML's name."""
    wanted = (
        r"^(router_ip|ports|tick)\s*:" if name.endswith((".yml", ".yaml")) else r"^router_ip\s*:"
    )
    return re.search(wanted, text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """The router becomes one to ask."""
    found = _pairs(text, importer)
    for key in found.keys() - set(_KEYS):
        importer.skip(key, "cluster-smi has no such setting")
    tick = found.get("tick")
    import_router(
        importer,
        address=found.get("router_ip"),
        nodes_port=found.get("ports.nodes"),
        clients_port=found.get("ports.clients"),
        interval=None if tick is None else f"{tick}s",
    )
    if "timeout" in found:
        importer.skip(f"timeout {found['timeout']}", _SILENCE)


def _pairs(text: str, into: SettingsImporter) -> dict[str, str]:
    """Keys and values, those below another key with its name before theirs."""
    found: dict[str, str] = {}
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        written = re.sub(r"(^|\s)#.*", "", line)
        match = _LINE.fullmatch(written)
        if match is None:
            if written.strip() not in ("", "---"):
                into.skip(f"line {number}", f"only {', '.join(_KEYS)} can be read")
            continue
        indent, key, value = match[1], match[2], match[4] or ""
        above = above if indent else ""
        if value[:1] == "{" and value[-1:] == "}":
            found.update(_inside(key, value))
        elif value:
            found[f"{above}{key}"] = value
        else:
            above = f"{key}."
    return found


def _inside(key: str, written: str) -> dict[str, str]:
    pairs = (_PAIR.fullmatch(pair) for pair in written[1:-1].split(","))
    return {f"{key}.{pair[1]}": pair[2] for pair in pairs if pair}
