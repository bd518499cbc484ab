"""Settings import of `cluster-smi.yml` (2019): five keys, by a parser of just that much YAML."""

import re

from fleet_smi.compat.cluster_smi.settings import import_router
from fleet_smi.config.importer import SettingsImporter

SYSTEM_NAME = "cluster-smi of 2019"
_KEYS = ("tick", "timeout", "router_ip", "ports.nodes", "ports.clients")
_LINE = re.compile(r"""(\s*)([\w-]+)\s*:(?:\s+(["']?)(.*?)\3)?\s*""")
_PAIR = re.compile(r"""\s*["']?(\w+)["']?\s*:\s*["']?([\w.-]+)["']?\s*""")
_SILENCE = "here a node is silent after verdict.silent_after missed reports"


def matches(name: str, text: str) -> bool:
    """Whether the text names a router or, in a .yml file, ports or a tick."""
    # `ports` and `tick` are common words: they count only in a file that is YAML by its name.
    pattern = (
        r"^(router_ip|ports|tick)\s*:" if name.endswith((".yml", ".yaml")) else r"^router_ip\s*:"
    )
    return re.search(pattern, text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import the router as one to poll."""
    values = _parse(text, importer)
    for key in values.keys() - set(_KEYS):
        importer.skip(key, "cluster-smi has no such setting")
    tick = values.get("tick")
    import_router(
        importer,
        address=values.get("router_ip"),
        nodes_port=values.get("ports.nodes"),
        clients_port=values.get("ports.clients"),
        interval=None if tick is None else f"{tick}s",
    )
    if "timeout" in values:
        importer.skip(f"timeout {values['timeout']}", _SILENCE)


def _parse(text: str, importer: SettingsImporter) -> dict[str, str]:
    """Return values by key; a nested key is prefixed by its parent, as `ports.nodes`."""
    values: dict[str, str] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        # As in YAML, # starts a comment only at the start of a line or after a blank.
        content = re.sub(r"(^|\s)#.*", "", line)
        match = _LINE.fullmatch(content)
        if match is None:
            if content.strip() not in ("", "---"):
                importer.skip(f"line {number}", f"only {', '.join(_KEYS)} can be read")
            continue
        indent, key, value = match[1], match[2], match[4] or ""
        prefix = prefix if indent else ""
        if value[:1] == "{" and value[-1:] == "}":
            values.update(_parse_inline(key, value))
        elif value:
            values[f"{prefix}{key}"] = value
        else:
            prefix = f"{key}."
    return values


def _parse_inline(key: str, text: str) -> dict[str, str]:
    pairs = (_PAIR.fullmatch(pair) for pair in text[1:-1].split(","))
    return {f"{key}.{pair[1]}": pair[2] for pair in pairs if pair}
