"""Hosts as these files write them: names, addresses, ports, users before an @."""

import re

from fleet_smi.config.addresses import parse_target

_USER = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,63}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
SETTING_BY_HOST_TYPE = {"node_info": "hub.node_info", "ssh": "hub.ssh", "pull": "hub.pull"}
"""What a list of hosts can be for, and the setting that it becomes."""


def to_http_target(host: str) -> str:
    """A host to ask over HTTP: an IPv6 address stands in brackets there."""
    return f"[{host}]" if _IPV6.fullmatch(host) else host


def to_ssh_target(text: str, user: str | None = None, port: str | None = None) -> str:
    """A host to log in at, with the user and the port that are meant where it names none.

    Raise `ValueError` where ssh would take it for something else.
    """
    named, at, host = text.rpartition("@")
    user = named if at else user
    if user is not None and not _USER.fullmatch(user):
        raise ValueError("has no user's name before its @")
    if not _IPV6.fullmatch(host):
        parse_target(host)
        host = host if port is None or ":" in host else f"{host}:{port}"
    return host if user is None else f"{user}@{host}"
