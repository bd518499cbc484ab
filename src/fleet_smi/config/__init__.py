"""The settings: what each source says of them, the stronger one winning.

Flags win over the environment, that over the user's file, that over the system's file,
that over the default. Bad settings are errors with the file and line, never silently ignored.
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
from fleet_smi.config.settings import (
    AgentSettings,
    ClientSettings,
    HubSettings,
    NodeSettings,
    Settings,
)
from fleet_smi.config.table import SETTINGS, Setting
from fleet_smi.model.verdict.thresholds import Thresholds

__all__ = ["SETTINGS", "Setting", "Settings", "load", "resolve"]

_PREFIX = "FLEET_SMI_"
_NAMED = {setting.name: setting for setting in SETTINGS}
_OWN = ("FLEET_SMI_CONFIG", "FLEET_SMI_DEBUG")
_FOR_TESTS = (
    "FLEET_SMI_SIM",
    "FLEET_SMI_SIM_STATIC",
    "FLEET_SMI_CAPTURES",
    "FLEET_SMI_UPDATE_GOLDEN",
)
# What Kubernetes tells every pod of a service that is called fleet-smi-something.
_SERVICE = r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
_LIKENESS = 0.93
_ANY_LIKENESS = 0.0


def load(
    environment: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None
) -> Settings:
    """The settings of this run; raise `UsageError` that names the file, line and remedy.

    `flags` are those of a command, by the name of the setting each stands for ("agent.to");
    `None` is a flag that was not given.
    """
    read = resolve(environment, flags)
    read.raise_if_invalid()
    return _settings({name: found.value for name, found in read.values.items()})


def resolve(
    environment: Mapping[str, str], flags: Mapping[str, Any] | None = None, *, strict: bool = False
) -> SettingsLayer:
    """Every setting with its origin, and all that is wrong with any source.

    A variable that is not known is wrong when it is a misspelt setting; or, if `strict`,
    unless it is known to be for something else. Then what a hub needs and has not is told too.
    """
    joined = _defaults(environment)
    for path in paths.settings_files(environment):
        joined.merge(read_settings_file(path))
    joined.merge(_from_environment(environment, strict=strict))
    joined.merge(_from_flags(flags or {}))
    _refuse_half_a_certificate(joined)
    if strict:
        _refuse_nodes_without_password(joined)
    return joined


def _refuse_half_a_certificate(joined: SettingsLayer) -> None:
    halves = (joined.values["hub.tls_cert"], joined.values["hub.tls_key"])
    given = [half.origin for half in halves if half.value is not None]
    if len(given) == 1:
        joined.add_problem(given[0], "tls_cert and tls_key belong together: set both")


def _refuse_nodes_without_password(joined: SettingsLayer) -> None:
    nodes = joined.values["hub.node_info"]
    keys = ("hub.node_info_password", "hub.node_info_password_file")
    if nodes.value and all(joined.values[key].value is None for key in keys):
        joined.add_problem(
            nodes.origin, "node_info needs node_info_password_file: these nodes want it"
        )


def _defaults(environment: Mapping[str, str]) -> SettingsLayer:
    layer = SettingsLayer()
    layer.values = {
        setting.name: SettingValue(setting.default, DEFAULT_ORIGIN) for setting in SETTINGS
    }
    state = paths.state_folder(environment)
    for section in ("agent", "hub"):
        layer.values[f"{section}.state"] = SettingValue(
            os.path.join(state, section), DEFAULT_ORIGIN
        )
    return layer


def _from_environment(environment: Mapping[str, str], *, strict: bool) -> SettingsLayer:
    layer = SettingsLayer()
    known = {setting.environment_variable: setting for setting in SETTINGS}
    strange = []
    for name in environment:
        if not name.startswith(_PREFIX) or name in (*_OWN, *_FOR_TESTS):
            continue
        if name in known:
            parse_setting(known[name], environment[name], Origin(name), layer)
        else:
            strange.append(name)
    if strange:
        _refuse_unknown(strange, [*known, *_OWN], layer, _ANY_LIKENESS if strict else _LIKENESS)
    return layer


def _refuse_unknown(
    names: list[str], known: Sequence[str], layer: SettingsLayer, least_likeness: float
) -> None:
    """A misspelt variable is an error; one that only starts alike may be somebody else's."""
    from difflib import get_close_matches

    for name in names:
        close = get_close_matches(name, known, 1, least_likeness)
        if close and not re.fullmatch(_SERVICE, name):
            layer.add_problem(Origin(name), f"unknown setting; did you mean {close[0]}?")


def _from_flags(flags: Mapping[str, Any]) -> SettingsLayer:
    layer = SettingsLayer()
    for name, value in flags.items():
        if value is None:
            continue
        setting = _NAMED[name]
        origin = Origin(f"--{setting.key.replace('_', '-')}")
        parse_setting(setting, _from_here(setting, value), origin, layer)
    return layer


def _from_here(setting: Setting, value: Any) -> Any:
    """Whoever types a path means it from where they are."""
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
            silent_after_intervals=values["verdict.silent_after"],
        ),
    )


def _section(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {setting.key: values[setting.name] for setting in SETTINGS if setting.section == section}
