"""Settings import of a `hosts.txt`, as of gpu-cluster-monitor: one host per line."""

import re

from fleet_smi.compat.hosts import (
    SETTING_BY_HOST_TYPE,
    to_http_target,
    to_ssh_target,
)
from fleet_smi.config.importer import SettingsImporter
from fleet_smi.config.value_types import format_for_error

SYSTEM_NAME = "a list of hosts"
_HOST = re.compile(r"(?:[\w.+-]+@)?[\w.:\[\]-]+(?:\s*#.*)?")
_WHERE_IT_GOES = (
    "it is PASSWD in node_info.py, the same for all nodes: write it into a file that only the hub "
    "can read, and set hub.node_info_password_file"
)


def matches(name: str, text: str) -> bool:
    """Whether the file is named hosts*.txt, or every line that is not a comment is a host."""
    lines = [line.strip() for line in text.splitlines()]
    entries = [line for line in lines if line and not line.startswith("#")]
    # By its name too: a host that cannot be read is then noted, instead of refusing the file.
    is_named = re.search(r"hosts[^/]*\.txt$", name) is not None
    return is_named or (bool(entries) and all(_HOST.fullmatch(line) for line in entries))


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import each host as one to poll, by the host type that the user chose."""
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        entry, comment, _ = line.partition("#")
        if entry.strip():
            hosts += _target(entry.strip(), f"line {number}", importer)
        elif not comment:
            importer.skip(f"line {number}", "it is blank")
    importer.extend_list("hosts", SETTING_BY_HOST_TYPE[importer.host_type], hosts)
    if importer.host_type == "node_info":
        importer.skip("the password", _WHERE_IT_GOES)


def _target(entry: str, location: str, importer: SettingsImporter) -> list[str]:
    if importer.host_type != "ssh":
        return [to_http_target(entry)]
    try:
        return [to_ssh_target(entry)]
    except ValueError as error:
        importer.skip(location, f"{format_for_error(entry)} {error}")
        return []
