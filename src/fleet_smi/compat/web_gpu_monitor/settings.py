"""`config.ini` of web-gpu-monitor: one account and one key for hosts that are asked over ssh."""

import configparser
import re

from fleet_smi.compat.hosts import to_ssh_target
from fleet_smi.config.importer import SettingsImporter
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError

SYSTEM_NAME = "web-gpu-monitor"
_KNOWN = ("user", "hosts", "key_filename")
_HOST_KEYS = (
    "web-gpu-monitor takes any; here each must be in known_hosts of the user who runs the hub: "
    "log in once by hand, or copy the file"
)


def matches(name: str, text: str) -> bool:
    """Whether it has the one section of these files."""
    return re.search(r"^\s*\[common\]", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """The hosts become ones to log in at, as that user, with that key."""
    common = _common(text, importer)
    user = common.get("user", "").strip() or None
    hosts = [word.strip() for word in common.get("hosts", "").split(",")]
    importer.extend_list(
        "user, hosts", "hub.ssh", _logins([each for each in hosts if each], user, importer)
    )
    if key := common.get("key_filename", "").strip():
        importer.set_value("key_filename", "hub.ssh_key", key)
    for name in common:
        if name not in _KNOWN:
            importer.skip(name, "web-gpu-monitor has no such setting")
    importer.skip("host keys", _HOST_KEYS)


def _common(text: str, into: SettingsImporter) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        common = dict(parser["common"])
    except (configparser.Error, KeyError) as error:
        words = str(error).splitlines()[0]
        raise UsageError(f"the config.ini of web-gpu-monitor cannot be read: {words}") from None
    for section in parser.sections():
        if section != "common":
            into.skip(f"[{section}]", "web-gpu-monitor has no such section")
    return common


def _logins(hosts: list[str], user: str | None, into: SettingsImporter) -> list[str]:
    logins = []
    for host in hosts:
        try:
            logins.append(to_ssh_target(host, user))
        except ValueError as error:
            into.skip("hosts", f"{format_for_error(host)} {error}")
    return logins
