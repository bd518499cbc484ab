"""The settings files: what stands in each, and on which line."""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from fleet_smi.config.layers import Origin, SettingsLayer, parse_setting
from fleet_smi.config.table import SETTINGS
from fleet_smi.model.safe_text import sanitize_text

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = rf"\s*\[\[?\s*({_PATH})\s*\]"
_KEY = rf"\s*({_PATH})\s*="
_PLACE = r" \(at (?:line (\d+), column \d+|end of document)\)$"


def read_settings_file(path: str) -> SettingsLayer:
    """All that a file says, and all that is wrong with it."""
    import tomllib

    layer = SettingsLayer()
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        layer.add_problem(Origin(path), f"cannot be read: {error}")
        return layer
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or a number or nesting without end
        line, words = _where_and_why(str(error), text)
        layer.add_problem(Origin(path, line), words)
        return layer
    for section, keys in tables.items():
        _read_section(_Lines(path, text), section, keys, layer)
    return layer


def _where_and_why(words: str, text: str) -> tuple[int | None, str]:
    """Where a file stops being TOML, as the parser tells it."""
    place = re.search(_PLACE, words)
    if place is None:
        return None, sanitize_text(words, 200)
    return int(place[1] or text.count("\n") + 1), sanitize_text(words[: place.start()], 200)


class _Lines(Struct, frozen=True):
    """A file's text, and on which line of it a key stands."""

    path: str
    text: str

    def origin(self, *wanted: str) -> Origin:
        """The line of a key, or of the first word about its section where it has none."""
        inside: tuple[str, ...] = ()
        near = None
        for number, line in enumerate(self.text.split("\n"), 1):
            if header := re.match(_HEADER, line):
                here = inside = _parts(header[1])
            elif key := re.match(_KEY, line):
                here = (*inside, *_parts(key[1]))
            else:
                continue
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
    return f"unknown section [{sanitize_text(section, 64)}]; {_nearest(section, sections, '[{}]')}"


def _unknown_key(section: str, key: str, keys: Iterable[str]) -> str:
    return f"unknown key `{sanitize_text(key, 64)}` in [{section}]; {_nearest(key, keys, '`{}`')}"


def _nearest(word: str, words: Iterable[str], style: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word[:64], words, 1)
    return f"did you mean {style.format(close[0])}?" if close else f"there are {', '.join(words)}"
