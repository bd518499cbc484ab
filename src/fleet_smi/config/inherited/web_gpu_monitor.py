"""`config.ini` of web-gpu-monitor: one account and one key for hosts that are asked over ssh."""

import configparser
import re

from fleet_smi.config.inherited.hosts import to_log_in
from fleet_smi.config.inherited.taking import Taking
from fleet_smi.config.kinds import shown
from fleet_smi.errors import UsageError

SYSTEM = "web-gpu-monitor"
_KNOWN = ("user", "hosts", "key_filename")
_HOST_KEYS = (
    "web-gpu-monitor takes any; here each must be in known_hosts of the user who runs the hub: "
    "log in once by hand, or copy the file"
)


def looks_like(name: str, text: str) -> bool:
    """Whether it has the one section of these files."""
    return re.search(r"^\s*\[common\]", text, re.MULTILINE) is not None


def read(text: str, into: Taking) -> None:
    """The hosts become ones to log in at, as that user, with that key."""
    common = _common(text, into)
    user = common.get("user", "").strip() or None
    hosts = [word.strip() for word in common.get("hosts", "").split(",")]
    into.take_all("user, hosts", "hub.ssh", _logins([each for each in hosts if each], user, into))
    if key := common.get("key_filename", "").strip():
        into.take("key_filename", "hub.ssh_key", key)
    for name in common:
        if name not in _KNOWN:
            into.leave(name, "web-gpu-monitor has no such setting")
    into.leave("host keys", _HOST_KEYS)


def _common(text: str, into: Taking) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        common = dict(parser["common"])
    except (configparser.Error, KeyError) as error:
        words = str(error).splitlines()[0]
        raise UsageError(f"the config.ini of web-gpu-monitor cannot be read: {words}") from None
    for section in parser.sections():
        if section != "common":
            into.leave(f"[{section}]", "web-gpu-monitor has no such section")
    return common


def _logins(hosts: list[str], user: str | None, into: Taking) -> list[str]:
    logins = []
    for host in hosts:
        try:
            logins.append(to_log_in(host, user))
        except ValueError as error:
            into.leave("hosts", f"{shown(host)} {error}")
    return logins
