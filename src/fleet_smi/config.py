"""The settings table: every setting, and where it may come from.

The environment wins over the user's file, that over the system's file, that over the default.
Bad settings are errors with the file and line, never silently ignored.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from msgspec import Struct

from fleet_smi.errors import UsageError
from fleet_smi.model.text import clean
from fleet_smi.model.thresholds import Thresholds
from fleet_smi.model.units import parse_duration, parse_size


class Setting(NamedTuple):
    """One row of the table; `section.key` in the file, `FLEET_SMI_SECTION_KEY` outside."""

    section: str
    key: str
    default: Any
    read: Callable[[Any], Any]

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"FLEET_SMI_{self.section}_{self.key}".upper()


def _number(value: Any) -> float:
    number = float("nan") if isinstance(value, bool) else float(value)
    if not isfinite(number):
        raise ValueError("is not a number")
    return number


def _fraction(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError("must lie between 0 and 1")
    return number


def _percent(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 100:
        raise ValueError("must lie between 0 and 100")
    return number


def _size(value: Any) -> int:
    return parse_size(str(value))


def _duration(value: Any) -> float:
    return _number(parse_duration(str(value)))


def _count(value: Any) -> int:
    number = _number(value)
    if number < 1 or number != int(number):
        raise ValueError("must be a whole number, at least 1")
    return int(number)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError('must be text, like "this"')
    return value


def _name(value: Any) -> str:
    name = clean(_string(value), 128)
    if not name:
        raise ValueError("must not be empty")
    return name


def _folder(value: Any) -> str:
    if not os.path.isdir(_string(value)):
        raise ValueError("is not a folder")
    return str(value)


_LAW = Thresholds()
SETTINGS: tuple[Setting, ...] = (
    Setting("node", "name", None, _name),
    Setting("node", "root", "/", _folder),
    Setting("verdict", "free_memory", _LAW.free_memory_bytes, _size),
    Setting("verdict", "free_memory_fraction", _LAW.free_memory_fraction, _fraction),
    Setting("verdict", "idle_percent", _LAW.idle_percent, _percent),
    Setting("verdict", "idle_window", _LAW.idle_window_seconds, _duration),
    Setting("verdict", "idle_power_fraction", _LAW.idle_power_fraction, _fraction),
    Setting("verdict", "silent_after", _LAW.silent_after_intervals, _count),
)
"""What each means is told in docs/settings.md; a test keeps the two equal."""


class Settings(Struct, frozen=True, kw_only=True):
    """What the table says for this run."""

    node_name: str | None
    root: str
    thresholds: Thresholds


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this run; raise `UsageError` that names the file, line and remedy."""
    values = {setting.name: setting.default for setting in SETTINGS}
    for path in _files(environment):
        values.update(_read_file(path))
    _refuse_unknown(environment)
    for setting in SETTINGS:
        if setting.variable in environment:
            values[setting.name] = _checked(
                setting, environment[setting.variable], setting.variable
            )
    return Settings(
        node_name=values["node.name"],
        root=values["node.root"],
        thresholds=Thresholds(
            free_memory_bytes=values["verdict.free_memory"],
            free_memory_fraction=values["verdict.free_memory_fraction"],
            idle_percent=values["verdict.idle_percent"],
            idle_window_seconds=values["verdict.idle_window"],
            idle_power_fraction=values["verdict.idle_power_fraction"],
            silent_after_intervals=values["verdict.silent_after"],
        ),
    )


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    """A misspelt variable is an error; one that only starts alike is somebody else's."""
    known = {setting.variable for setting in SETTINGS}
    alike = [name for name in environment if name.startswith("FLEET_SMI_") and name not in known]
    if alike:
        from difflib import get_close_matches

        for name in alike:
            if close := get_close_matches(name, known, 1, 0.93):
                raise UsageError(f"unknown setting {name}; did you mean {close[0]}?")


def _files(environment: Mapping[str, str]) -> Iterable[str]:
    """The files to read, the weakest first; one named by hand stands alone and must exist."""
    named = environment.get("FLEET_SMI_CONFIG")
    if named:
        if not os.path.isfile(named):
            raise UsageError(f"FLEET_SMI_CONFIG names {named}, which is not a file")
        return [named]
    home = environment.get("XDG_CONFIG_HOME")
    if not home and environment.get("HOME"):
        home = os.path.join(environment["HOME"], ".config")
    folders = ["/etc", *([home] if home else [])]
    found = (os.path.join(folder, "fleet-smi/fleet-smi.toml") for folder in folders)
    return [path for path in found if os.path.isfile(path)]


def _read_file(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # not TOML, or a number or nesting without end
        raise UsageError(f"{path}: {clean(str(error), 200)}") from None
    values = {}
    for section, keys in tables.items():
        known = {setting.key: setting for setting in SETTINGS if setting.section == section}
        where = f"{os.path.basename(path)}:{_line_of(text, section, '')}"
        if not known:
            raise UsageError(f"{where}: {_unknown_section(section)}")
        if not isinstance(keys, dict):
            raise UsageError(f"{where}: [{section}] must be a section")
        for key, value in keys.items():
            where = f"{os.path.basename(path)}:{_line_of(text, section, key)}"
            if key not in known:
                raise UsageError(f"{where}: {_unknown_key(section, key, known)}")
            values[known[key].name] = _checked(known[key], value, where)
    return values


def _checked(setting: Setting, value: Any, where: str) -> Any:
    try:
        return setting.read(value)
    except (ValueError, TypeError, OverflowError, RecursionError, UsageError) as error:
        why = clean(str(error), 200)
        raise UsageError(f"{where}: {setting.key} = {_shown(value)}: {why}") from None


def _shown(value: Any) -> str:
    try:
        return clean(repr(value), 64)
    except (ValueError, RecursionError):  # a number or a nesting without end
        return "…"


def _unknown_section(section: str) -> str:
    sections = sorted({setting.section for setting in SETTINGS})
    return f"unknown section [{clean(section, 64)}]; there are {', '.join(sections)}"


def _unknown_key(section: str, key: str, keys: Iterable[str]) -> str:
    from difflib import get_close_matches

    key = clean(key, 64)
    close = get_close_matches(key, keys, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(keys)}"
    return f"unknown key `{key}` in [{section}]; {hint}"


def _line_of(text: str, section: str, key: str) -> int:
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\]]+)\]", line):
            inside = header[1].strip()
        name = re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*=", line)
        if (name and (inside, name[1]) == (section, key)) or (not key and section in line):
            return number
    return 1
