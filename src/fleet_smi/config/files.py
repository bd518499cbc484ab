"""Read settings files (TOML), with the line of each setting for error messages."""

import re
import sys
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from fleet_smi.config.layers import Origin, SettingsLayer, parse_setting
from fleet_smi.config.table import SETTINGS
from fleet_smi.model.safe_text import sanitize_text

# tomllib gives no line numbers: keys and headers are found again with these patterns.
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = rf"\s*\[\[?\s*({_PATH})\s*\]"
_KEY = rf"\s*({_PATH})\s*="
_PLACE = r" \(at (?:line (\d+), column \d+|end of document)\)$"


def read_settings_file(path: str) -> SettingsLayer:
    """Return the settings of a file, and its problems."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    layer = SettingsLayer()
    try:
        # With or without a byte order mark, which some editors write.
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        layer.add_problem(Origin(path), f"cannot be read: {error}")
        return layer
    try:
        tables = tomllib.loads(text)
    # Not TOML, a huge number, or nested too deeply.
    except (ValueError, RecursionError) as error:
        line, message = _line_and_message(str(error), text)
        layer.add_problem(Origin(path, line), message)
        return layer
    for section, keys in tables.items():
        _read_section(_Lines(path, text), section, keys, layer)
    return layer


def _line_and_message(error: str, text: str) -> tuple[int | None, str]:
    """The line and message of the parser's error."""
    place = re.search(_PLACE, error)
    if place is None:
        return None, sanitize_text(error, 200)
    return int(place[1] or text.count("\n") + 1), sanitize_text(error[: place.start()], 200)


class _Lines(Struct, frozen=True):
    """Finds the line of a key in the text of a settings file."""

    path: str
    text: str

    def origin(self, *wanted: str) -> Origin:
        """The line of a key, or else the first line of its section."""
        inside: tuple[str, ...] = ()
        near = None
        for number, line in enumerate(self.text.split("\n"), 1):
            if header := re.match(_HEADER, line):
                here = inside = _parts(header[1])
            elif key := re.match(_KEY, line):
                here = (*inside, *_parts(key[1]))
            else:
                continue
            # A prefix is enough: `labels.rack = "a"` sets `labels`.
            if here[: len(wanted)] == wanted:
                return Origin(self.path, number)
            if near is None and here[0] == wanted[0]:
                near = number
        return Origin(self.path, near or 1)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, path))


def _read_section(lines: _Lines, section: str, keys: Any, layer: SettingsLayer) -> None:
    known = {setting.key: setting for setting in SETTINGS if setting.section == section}
    if not known:
        layer.add_problem(lines.origin(section), _unknown_section(section))
    elif not isinstance(keys, dict):
        layer.add_problem(lines.origin(section), f"[{section}] must be a section")
    else:
        for key, value in keys.items():
            if key in known:
                parse_setting(known[key], value, lines.origin(section, key), layer)
            else:
                layer.add_problem(lines.origin(section, key), _unknown_key(section, key, known))


def _unknown_section(section: str) -> str:
    sections = dict.fromkeys(setting.section for setting in SETTINGS)
    return (
        f"unknown section [{sanitize_text(section, 64)}]; {_suggestion(section, sections, '[{}]')}"
    )


def _unknown_key(section: str, key: str, keys: Iterable[str]) -> str:
    return (
        f"unknown key `{sanitize_text(key, 64)}` in [{section}]; {_suggestion(key, keys, '`{}`')}"
    )


def _suggestion(name: str, names: Iterable[str], style: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:64], names, 1)
    return f"did you mean {style.format(close[0])}?" if close else f"there are {', '.join(names)}"
