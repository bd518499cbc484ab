"""Parsing of host entries in settings files: names, addresses, ports and `user@` prefixes."""

import re

from fleet_smi.config.addresses import parse_target

_USER = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,63}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
SETTING_BY_HOST_TYPE = {"node_info": "hub.node_info", "ssh": "hub.ssh", "pull": "hub.pull"}
"""The uses of a list of hosts, each with the setting that it becomes."""


def to_http_target(host: str) -> str:
    """Return a host to poll over HTTP, with an IPv6 address in brackets."""
    return f"[{host}]" if _IPV6.fullmatch(host) else host


def to_ssh_target(text: str, user: str | None = None, port: str | None = None) -> str:
    """Return a host to log in to; `user` and `port` apply where the entry names none.

    Raise `ValueError` where ssh would take it for something else, such as an option.
    """
    named, at, host = text.rpartition("@")
    user = named if at else user
    if user is not None and not _USER.fullmatch(user):
        raise ValueError("has no valid user name before its @")
    # A bare IPv6 address has colons but cannot have a port: it is taken as it is.
    if not _IPV6.fullmatch(host):
        parse_target(host)
        host = host if port is None or ":" in host else f"{host}:{port}"
    return host if user is None else f"{user}@{host}"
