"""Value types of settings: how each is parsed, validated and formatted.

A parser takes the value of a file, a variable or a flag. It raises `ValueError`, `TypeError` or
`UsageError` with a message that follows the value in a sentence ("7 is too large").
"""

import os
import re
from collections.abc import Callable
from math import isfinite
from typing import Any

from msgspec import Struct

from fleet_smi.config.addresses import (
    ListenAddress,
    parse_fingerprint,
    parse_host,
    parse_listen_address,
    parse_nats_url,
    parse_network,
    parse_target,
    parse_url,
    parse_urls,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.units import GIB, KIB, MIB, TIB, parse_duration, parse_size

_MAX_SHOWN = 64
_MAX_NAME = 128
_MAX_PATH = 4096
_MIN_PASSWORD = 8
_MAX_LABELS = 32
OFF = "off"
_MIN_SECONDS, _MAX_SECONDS = 0.1, 86400.0
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_UNITS = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_TIMES = (("d", 86400), ("h", 3600), ("min", 60))


def _as_is(value: Any) -> Any:
    return value


class ValueType(Struct, frozen=True):
    """How a value is parsed, and how it is written in a file, where that differs."""

    parse: Callable[[Any], Any]
    format: Callable[[Any], Any] = _as_is


def format_for_error(value: Any) -> str:
    """Format a value for an error message: short, sanitised, without the password of a URL."""
    try:
        return sanitize_text(re.sub(r"//\S*@", "//…@", repr(value)), _MAX_SHOWN)
    except (ValueError, RecursionError):  # a huge number, or nested too deeply
        return "…"


def _number(value: Any) -> float:
    # `true` is not 1, although Python's bool is an int.
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except OverflowError:
        raise ValueError("is too large") from None
    except (ValueError, TypeError):
        number = float("nan")
    if not isfinite(number):
        raise ValueError("is not a number")
    return number


def _within(minimum: float, maximum: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        number = _number(value)
        if not minimum <= number <= maximum:
            raise ValueError(f"must lie between {minimum:g} and {maximum:g}")
        return number

    return read


def _count(value: Any) -> int:
    number = _number(value)
    if number < 1 or number != int(number):
        raise ValueError("must be a whole number, at least 1")
    return int(number)


def _size(value: Any) -> int:
    return parse_size(str(value))


def _format_size(count: int) -> str | int:
    for unit, factor in _UNITS:
        # 0 is a multiple of every unit, and best written as 0.
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return count


def _duration(value: Any) -> float:
    return _number(parse_duration(str(value)))


def _interval(value: Any) -> float:
    seconds = _duration(value)
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise ValueError("must lie between 0.1s and 1d")
    return seconds


def _format_duration(seconds: float) -> str:
    for unit, factor in _TIMES:
        if seconds and seconds % factor == 0:
            return f"{seconds / factor:g}{unit}"
    return f"{seconds:g}s"


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text not in _YES + _NO:
        raise ValueError("must be true or false")
    return text in _YES


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError('must be text, like "this"')
    return value


def _name(value: Any) -> str:
    name = sanitize_text(_text(value), _MAX_NAME)
    if not name:
        raise ValueError("must not be empty")
    return name


def _path(value: Any) -> str:
    # Absolute, because a service is not started in the folder that its settings are in.
    path = os.path.expanduser(_text(value))
    if not os.path.isabs(path) or len(path) > _MAX_PATH or not path.isprintable():
        raise ValueError("must be an absolute path, from / or ~/ on")
    return os.path.normpath(path)


def require_glob_at_end(path: str) -> None:
    """Raise `ValueError` for a wildcard before the last part: only files may be a pattern."""
    folder = os.path.dirname(path)
    # A folder that is really named like a pattern is fine.
    if any(character in folder for character in "*?[") and not os.path.isdir(folder):
        raise ValueError("has a pattern before its last part: only that may be one, like /a/b*")


def _folder_or_pattern(value: Any) -> str:
    path = _path(value)
    require_glob_at_end(path)
    return path


def _folder(value: Any) -> str:
    if "\0" in _text(value) or not os.path.isdir(value):
        raise ValueError("is not a folder")
    return str(value)


def _secret(value: Any) -> str:
    secret = _text(value).strip()
    # It is sent in a header, so it must survive there.
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError(
            "is not a token: it must be letters, digits and punctuation without spaces"
        )
    return secret


def _password(value: Any) -> str:
    # 8888 is the default of gpu-cluster-monitor, whose clients use this password.
    password = _secret(value)
    if len(password) < _MIN_PASSWORD:
        raise ValueError(f"is too short: everybody knows 8888; use {_MIN_PASSWORD} or more")
    return password


def _history(value: Any) -> str:
    """A file, a PostgreSQL database, or `off`."""
    place = _text(value)
    if place == OFF:
        return OFF
    if "://" not in place:
        return _path(place)
    # No ":" before the "@": a password there would be shown with the settings.
    if not re.fullmatch(r"postgresql://[^\s:@]*@?[^\s@]+", place):
        raise ValueError(
            "must be a path, off, or like postgresql://user@host/name, "
            "without a password: that belongs in ~/.pgpass"
        )
    return place


def _path_or_off(value: Any) -> str:
    return OFF if value == OFF else _path(value)


def _mode(value: Any) -> int:
    if value not in ("0644", "0600"):
        raise ValueError('must be "0644" (others may read it) or "0600"')
    return int(value, 8)


def _ssh_host(value: Any) -> str:
    name = _name(value)
    # ssh would take a leading dash for a flag, and a space would split the command.
    if name.startswith("-") or name != value or " " in name:
        raise ValueError("is not a host or a pattern of ~/.ssh/config")
    return name


def _url_path(value: Any) -> str | None:
    path = _text(value).rstrip("/")
    if not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)*", path) or "/." in path:
        raise ValueError("is not a path of a URL, like /gpus")
    return path or None


def _header(value: Any) -> str:
    name = _text(value)
    if not name.isascii() or not name.replace("-", "").isalnum() or len(name) > _MAX_NAME:
        raise ValueError("is not the name of a header")
    return name


def _one_of(*choices: str) -> ValueType:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be {' or '.join(choices)}")
        return str(value)

    return ValueType(read)


def _list_of(parse_item: Callable[[Any], Any]) -> ValueType:
    """A list in a file; a comma-separated text elsewhere."""

    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            value = [item.strip() for item in value.split(",") if item.strip()]
        if not isinstance(value, list | tuple):
            raise TypeError('must be a list, like ["this", "that"]')
        return tuple(_parse_item(parse_item, item) for item in value)

    return ValueType(read, list)


def _parse_item(read: Callable[[Any], Any], item: Any) -> Any:
    try:
        return read(item)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{format_for_error(item)} {error}") from None


def _labels(value: Any, signs: str = "-") -> dict[str, str]:
    if isinstance(value, str):
        pairs = (pair.partition("=") for pair in value.split(",") if pair.strip())
        value = {key.strip(): text.strip() for key, _, text in pairs}
    if not isinstance(value, dict):
        raise TypeError('must be a table, like { rack = "a" }')
    if len(value) > _MAX_LABELS:
        raise ValueError(f"has more than {_MAX_LABELS} labels")
    return {_label_name(key, signs): _parse_item(_name, text) for key, text in value.items()}


def _label_name(key: str, signs: str) -> str:
    plain = key.translate(dict.fromkeys(map(ord, signs), "_"))
    if not (key.isascii() and plain.isidentifier() and len(key) <= _MAX_NAME):
        raise ValueError(f"{format_for_error(key)} is not a name for a label, like rack")
    return key


def _attributes(value: Any) -> dict[str, str]:
    """Labels whose names may have dots, as those of OpenTelemetry have."""
    return _labels(value, ".-")


def _series_labels(value: Any) -> dict[str, str]:
    labels = _labels(value)
    for key in labels:
        if not key.isidentifier() or key.startswith("__"):
            raise ValueError(f"{format_for_error(key)} is not a name for a label, like site")
    return labels


def _sites(value: Any) -> dict[str, str]:
    """Names of sites and the URLs of their hubs."""
    return {name: parse_url(url) for name, url in _labels(value).items()}


def _fingerprints(value: Any) -> dict[str, str]:
    return {name: parse_fingerprint(text) for name, text in _labels(value).items()}


NAME = ValueType(_name)
NAMES = _list_of(_name)
PATH = ValueType(_path)
PATH_OR_OFF = ValueType(_path_or_off)
PATHS = _list_of(_folder_or_pattern)
FOLDER = ValueType(_folder)
SECRET = ValueType(_secret)
PASSWORD = ValueType(_password)
LABELS = ValueType(_labels, dict)
ATTRIBUTES = ValueType(_attributes, dict)
SERIES_LABELS = ValueType(_series_labels, dict)
SITES = ValueType(_sites, dict)
FINGERPRINTS = ValueType(_fingerprints, dict)
URL = ValueType(parse_url)
HUB_URLS = ValueType(parse_urls)
NATS_URLS = _list_of(parse_nats_url)
ADDRESS: ValueType = ValueType(parse_listen_address, ListenAddress.__str__)
FINGERPRINT = ValueType(parse_fingerprint)
HOSTS = _list_of(parse_host)
TARGETS = _list_of(parse_target)
NETWORKS = _list_of(parse_network)
SSH_HOSTS = _list_of(_ssh_host)
HEADER = ValueType(_header)
URL_PATH = ValueType(_url_path)
SIZE = ValueType(_size, _format_size)
DURATION = ValueType(_duration, _format_duration)
INTERVAL = ValueType(_interval, _format_duration)
FRACTION = ValueType(_within(0, 1))
PERCENT = ValueType(_within(0, 100))
COUNT = ValueType(_count)
BOOLEAN = ValueType(_boolean)
HISTORY = ValueType(_history)
PRICE = ValueType(_within(0, 1_000_000))
MODE = ValueType(_mode, "{:04o}".format)
COMMANDS = _one_of("full", "script", "name", "hidden")
TLS = _one_of("self-signed")
DROP_FORMAT = _one_of("report", "gpustat", "gpustat-text")
TRANSPORTS = _list_of(_one_of("pull", "files", "ssh").parse)
