"""Settings import of web-gpu-monitor's `config.ini`: one user and key for hosts over ssh."""

import configparser
import re

from fleet_smi.compat.hosts import to_ssh_target
from fleet_smi.config.importer import SettingsImporter
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError

SYSTEM_NAME = "web-gpu-monitor"
_KNOWN = ("user", "hosts", "key_filename")
_HOST_KEYS = (
    "web-gpu-monitor accepts any; the hub needs each in known_hosts of the user who runs it: "
    "log in once by hand, or copy the file"
)


def matches(name: str, text: str) -> bool:
    """Whether the text has the section `[common]`."""
    return re.search(r"^\s*\[common\]", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import the hosts as ones to poll over ssh, with that user and key."""
    common = _common(text, importer)
    user = common.get("user", "").strip() or None
    hosts = [host.strip() for host in common.get("hosts", "").split(",")]
    importer.extend_list(
        "user, hosts", "hub.ssh", _ssh_targets([host for host in hosts if host], user, importer)
    )
    if key := common.get("key_filename", "").strip():
        importer.set_value("key_filename", "hub.ssh_key", key)
    for name in common:
        if name not in _KNOWN:
            importer.skip(name, "web-gpu-monitor has no such setting")
    importer.skip("host keys", _HOST_KEYS)


def _common(text: str, importer: SettingsImporter) -> dict[str, str]:
    # As lenient as possible: % has no special meaning, and a repeated key is no error.
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        common = dict(parser["common"])
    except (configparser.Error, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"the config.ini of web-gpu-monitor cannot be read: {reason}") from None
    for section in parser.sections():
        if section != "common":
            importer.skip(f"[{section}]", "web-gpu-monitor has no such section")
    return common


def _ssh_targets(hosts: list[str], user: str | None, importer: SettingsImporter) -> list[str]:
    targets = []
    for host in hosts:
        try:
            targets.append(to_ssh_target(host, user))
        except ValueError as error:
            importer.skip("hosts", f"{format_for_error(host)} {error}")
    return targets
