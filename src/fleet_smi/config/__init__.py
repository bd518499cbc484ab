"""Load the settings from flags, environment, files and defaults, in this order of precedence.

The user's file wins over the system's file. Bad settings are errors with the file and line,
never silently ignored.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fleet_smi import paths
from fleet_smi.config import value_types
from fleet_smi.config.files import read_settings_file
from fleet_smi.config.layers import (
    DEFAULT_ORIGIN,
    Origin,
    SettingsLayer,
    SettingValue,
    parse_setting,
)
from fleet_smi.config.setting_row import Setting
from fleet_smi.config.settings import (
    AgentSettings,
    ClientSettings,
    HubSettings,
    NodeSettings,
    Settings,
)
from fleet_smi.config.table import SETTINGS
from fleet_smi.model.verdict.thresholds import Thresholds

__all__ = ["SETTINGS", "Setting", "Settings", "load", "resolve"]

_PREFIX = "FLEET_SMI_"
_SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}
_NOT_SETTINGS = ("FLEET_SMI_CONFIG", "FLEET_SMI_DEBUG")
_FOR_TESTS = (
    "FLEET_SMI_SIM",
    "FLEET_SMI_SIM_STATIC",
    "FLEET_SMI_CAPTURES",
    "FLEET_SMI_UPDATE_GOLDEN",
)
# Variables that Kubernetes sets in every pod for a service named fleet-smi-something.
_SERVICE = r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
# High, because all names share a prefix: a variable of another program must not look misspelt.
_SIMILARITY = 0.93
_ANY_SIMILARITY = 0.0


def load(
    environment: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Load the settings; raise `UsageError` with the file, line and remedy.

    `flags` are those of a command, by the setting that each one sets ("agent.to");
    `None` is a flag that was not given.
    """
    resolved = resolve(environment, flags)
    resolved.raise_if_invalid()
    return _settings({name: setting.value for name, setting in resolved.values.items()})


def resolve(
    environment: Mapping[str, str], flags: Mapping[str, Any] | None = None, *, strict: bool = False
) -> SettingsLayer:
    """Return every setting with its origin, and the problems of every source.

    An unknown variable is a problem when it looks like a misspelt setting; if `strict`, unless
    it is known to belong to something else. `strict` also reports what a hub would miss.
    """
    # The weakest first: each layer overrides those before it.
    merged = _defaults(environment)
    for path in paths.settings_files(environment):
        merged.merge(read_settings_file(path))
    merged.merge(_from_environment(environment, strict=strict))
    merged.merge(_from_flags(flags or {}))
    _check_certificate_pair(merged)
    if strict:
        _check_node_info_password(merged)
        _check_files(merged)
    return merged


def _check_certificate_pair(merged: SettingsLayer) -> None:
    pair = (merged.values["hub.tls_cert"], merged.values["hub.tls_key"])
    given = [setting.origin for setting in pair if setting.value is not None]
    if len(given) == 1:
        merged.add_problem(given[0], "tls_cert and tls_key belong together: set both")


def _check_node_info_password(merged: SettingsLayer) -> None:
    nodes = merged.values["hub.node_info"]
    keys = ("hub.node_info_password", "hub.node_info_password_file")
    if nodes.value and all(merged.values[key].value is None for key in keys):
        merged.add_problem(
            nodes.origin, "node_info needs node_info_password_file: these nodes require a password"
        )


def _check_files(merged: SettingsLayer) -> None:
    """Report the files without which a hub or an agent does not start."""
    for name, setting in merged.values.items():
        section, _, key = name.partition(".")
        is_needed = key.endswith("_file") or key in ("tls_cert", "tls_key")
        # A client's file is in the home folder of each user.
        if section != "client" and is_needed and setting.value and _is_missing(setting.value):
            merged.add_problem(setting.origin, f"{key}: there is no file {setting.value}")


def _is_missing(path: str) -> bool:
    """Whether there is no such file; one that only the service's user can see is not missing."""
    try:
        os.stat(path)
    except OSError as error:
        return not isinstance(error, PermissionError)
    return False


def _defaults(environment: Mapping[str, str]) -> SettingsLayer:
    layer = SettingsLayer()
    layer.values = {
        setting.name: SettingValue(setting.default, DEFAULT_ORIGIN) for setting in SETTINGS
    }
    # Not in the table, as it depends on the user and the environment.
    state = paths.state_folder(environment)
    for section in ("agent", "hub"):
        layer.values[f"{section}.state"] = SettingValue(
            os.path.join(state, section), DEFAULT_ORIGIN
        )
    layer.values["agent.socket"] = SettingValue(paths.agent_socket(environment), DEFAULT_ORIGIN)
    return layer


def _from_environment(environment: Mapping[str, str], *, strict: bool) -> SettingsLayer:
    layer = SettingsLayer()
    known = {setting.environment_variable: setting for setting in SETTINGS}
    unknown = []
    for name in environment:
        if not name.startswith(_PREFIX) or name in (*_NOT_SETTINGS, *_FOR_TESTS):
            continue
        if name in known:
            parse_setting(known[name], environment[name], Origin(name), layer)
        else:
            unknown.append(name)
    if unknown:
        _report_unknown_variables(
            unknown, [*known, *_NOT_SETTINGS], layer, _ANY_SIMILARITY if strict else _SIMILARITY
        )
    return layer


def _report_unknown_variables(
    names: list[str], known: Sequence[str], layer: SettingsLayer, min_similarity: float
) -> None:
    """Report misspelt variables; one that only has our prefix may belong to another program."""
    # Imported only for an unknown name: every command loads the settings.
    from difflib import get_close_matches

    for name in names:
        close = get_close_matches(name, known, 1, min_similarity)
        if close and not re.fullmatch(_SERVICE, name):
            layer.add_problem(Origin(name), f"unknown setting; did you mean {close[0]}?")


def _from_flags(flags: Mapping[str, Any]) -> SettingsLayer:
    layer = SettingsLayer()
    for name, value in flags.items():
        if value is None:
            continue
        setting = _SETTINGS_BY_NAME[name]
        origin = Origin(f"--{setting.key.replace('_', '-')}")
        parse_setting(setting, _absolute_paths(setting, value), origin, layer)
    return layer


def _absolute_paths(setting: Setting, value: Any) -> Any:
    """Make a path of the command line absolute; settings files must have absolute paths."""
    if setting.value_type is value_types.PATHS:
        return [os.path.abspath(path) for path in value.split(",") if path]
    return os.path.abspath(value) if value and setting.value_type is value_types.PATH else value


def _settings(values: Mapping[str, Any]) -> Settings:
    return Settings(
        node=NodeSettings(**_section("node", values)),
        agent=AgentSettings(**_section("agent", values)),
        hub=HubSettings(**_section("hub", values)),
        client=ClientSettings(**_section("client", values)),
        thresholds=Thresholds(
            free_memory_bytes=values["verdict.free_memory"],
            free_memory_fraction=values["verdict.free_memory_fraction"],
            idle_percent=values["verdict.idle_percent"],
            idle_window_seconds=values["verdict.idle_window"],
            idle_power_fraction=values["verdict.idle_power_fraction"],
            load_policy_percent=values["verdict.load_percent"],
            load_policy_memory_percent=values["verdict.load_memory_percent"],
            silent_after_intervals=values["verdict.silent_after"],
        ),
    )


def _section(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {setting.key: values[setting.name] for setting in SETTINGS if setting.section == section}
