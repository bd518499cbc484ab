"""The settings: what each source says of them, the stronger one winning.

Flags win over the environment, that over the user's file, that over the system's file,
that over the default. Bad settings are errors with the file and line, never silently ignored.
"""

import os
from collections.abc import Mapping
from typing import Any

from fleet_smi import places
from fleet_smi.config import kinds
from fleet_smi.config.files import read_file
from fleet_smi.config.reading import DEFAULT, Found, Layer, Origin, checked
from fleet_smi.config.settings import (
    AgentSettings,
    ClientSettings,
    HubSettings,
    NodeSettings,
    Settings,
)
from fleet_smi.config.table import SETTINGS, Setting
from fleet_smi.model.thresholds import Thresholds

__all__ = ["SETTINGS", "Setting", "Settings", "gather", "load"]

_PREFIX = "FLEET_SMI_"
_NAMED = {setting.name: setting for setting in SETTINGS}
_LIKENESS = 0.93


def load(
    environment: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None
) -> Settings:
    """The settings of this run; raise `UsageError` that names the file, line and remedy.

    `flags` are those of a command, by the name of the setting each stands for ("agent.to");
    `None` is a flag that was not given.
    """
    read = gather(environment, flags)
    read.require_sound()
    return _settings({name: found.value for name, found in read.found.items()})


def gather(environment: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Layer:
    """Every setting with its origin, and all that is wrong with any source."""
    joined = _defaults(environment)
    for path in places.settings_files(environment):
        joined.cover(read_file(path))
    joined.cover(_from_environment(environment))
    joined.cover(_from_flags(flags or {}))
    _refuse_half_a_certificate(joined)
    return joined


def _refuse_half_a_certificate(joined: Layer) -> None:
    halves = (joined.found["hub.tls_cert"], joined.found["hub.tls_key"])
    given = [half.origin for half in halves if half.value is not None]
    if len(given) == 1:
        joined.refuse(given[0], "tls_cert and tls_key belong together: set both")


def _defaults(environment: Mapping[str, str]) -> Layer:
    layer = Layer()
    layer.found = {setting.name: Found(setting.default, DEFAULT) for setting in SETTINGS}
    state = places.state_folder(environment)
    for section in ("agent", "hub"):
        layer.found[f"{section}.state"] = Found(os.path.join(state, section), DEFAULT)
    return layer


def _from_environment(environment: Mapping[str, str]) -> Layer:
    layer = Layer()
    known = {setting.variable: setting for setting in SETTINGS}
    strange = []
    for name in environment:
        if not name.startswith(_PREFIX):
            continue
        if name in known:
            checked(known[name], environment[name], Origin(name), layer)
        else:
            strange.append(name)
    if strange:
        _refuse_misspelt(strange, known, layer)
    return layer


def _refuse_misspelt(names: list[str], known: Mapping[str, Setting], layer: Layer) -> None:
    """A misspelt variable is an error; one that only starts alike is somebody else's."""
    from difflib import get_close_matches

    for name in names:
        if close := get_close_matches(name, known, 1, _LIKENESS):
            layer.refuse(Origin(name), f"unknown setting; did you mean {close[0]}?")


def _from_flags(flags: Mapping[str, Any]) -> Layer:
    layer = Layer()
    for name, value in flags.items():
        if value is None:
            continue
        setting = _NAMED[name]
        origin = Origin(f"--{setting.key.replace('_', '-')}")
        checked(setting, _from_here(setting, value), origin, layer)
    return layer


def _from_here(setting: Setting, value: Any) -> Any:
    """Whoever types a path means it from where they are."""
    if setting.kind is kinds.PATHS:
        return [os.path.abspath(path) for path in value.split(",") if path]
    return os.path.abspath(value) if value and setting.kind is kinds.PATH else value


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
