"""`hosts.txt` of gpu-cluster-monitor, and of many others: one host a line."""

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
_ITS_PLACE = (
    "it stands in node_info.py (PASSWD), the same for all: write it into a file that only the hub "
    "can read, and name that in hub.node_info_password_file"
)


def matches(name: str, text: str) -> bool:
    """Whether every line that says something is a host; by its name alone, whatever is in it."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    named = re.search(r"hosts[^/]*\.txt$", name) is not None
    return named or (bool(said) and all(_HOST.fullmatch(line) for line in said))


def import_file(text: str, importer: SettingsImporter) -> None:
    """Each host becomes one to ask, in the way that the user says."""
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        written, comment, _ = line.partition("#")
        if written.strip():
            hosts += _host(written.strip(), f"line {number}", importer)
        elif not comment:
            importer.skip(f"line {number}", "it is blank, and no host")
    importer.extend_list("hosts", SETTING_BY_HOST_TYPE[importer.host_type], hosts)
    if importer.host_type == "node_info":
        importer.skip("the password", _ITS_PLACE)


def _host(written: str, where: str, into: SettingsImporter) -> list[str]:
    if into.host_type != "ssh":
        return [to_http_target(written)]
    try:
        return [to_ssh_target(written)]
    except ValueError as error:
        into.skip(where, f"{format_for_error(written)} {error}")
        return []
