"""`hosts.txt` of gpu-cluster-monitor, and of many others: one host a line."""

import re

from fleet_smi.config.inherited.hosts import ADDRESSES, to_ask, to_log_in
from fleet_smi.config.inherited.taking import Taking
from fleet_smi.config.kinds import shown

SYSTEM = "a list of hosts"
_HOST = re.compile(r"(?:[\w.+-]+@)?[\w.:\[\]-]+(?:\s*#.*)?")
_ITS_PLACE = (
    "it stands in node_info.py (PASSWD), the same for all: write it into a file that only the hub "
    "can read, and name that in hub.node_info_password_file"
)


def looks_like(name: str, text: str) -> bool:
    """Whether every line that says something is a host; by its name alone, whatever is in it."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    named = re.search(r"hosts[^/]*\.txt$", name) is not None
    return named or (bool(said) and all(_HOST.fullmatch(line) for line in said))


def read(text: str, into: Taking) -> None:
    """Each host becomes one to ask, in the way that the user says."""
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        written, comment, _ = line.partition("#")
        if written.strip():
            hosts += _host(written.strip(), f"line {number}", into)
        elif not comment:
            into.leave(f"line {number}", "it is blank, and no host")
    into.take_all("hosts", ADDRESSES[into.hosts_as], hosts)
    if into.hosts_as == "node_info":
        into.leave("the password", _ITS_PLACE)


def _host(written: str, where: str, into: Taking) -> list[str]:
    if into.hosts_as != "ssh":
        return [to_ask(written)]
    try:
        return [to_log_in(written)]
    except ValueError as error:
        into.leave(where, f"{shown(written)} {error}")
        return []
