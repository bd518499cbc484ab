"""What other programs print: JSON behind warnings, numbers with units, "N/A" for unknown."""

import json
import re
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.safe_text import sanitize_text

_MOST_CHARACTERS = 16 << 20
_MOST_ATTEMPTS = 16
_OPENING = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
# Taken from the front: "45.0", "(1600Mhz)", "16.0GT/s x16", "42 %". Never from "N/A" or "0x1002".
_NUMBER = re.compile(r"\(?(-?[0-9]{1,20}(?:\.[0-9]{1,20})?)(?![0-9x.])", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_UNKNOWN = frozenset({"", "n/a", "none", "unknown", "not supported", "unsupported"})
_UNITS = {
    "B": 1,
    "KB": 1 << 10,
    "KIB": 1 << 10,
    "MB": 1 << 20,
    "MIB": 1 << 20,
    "GB": 1 << 30,
    "GIB": 1 << 30,
}


def extract_json(text: str, program: str) -> Any:
    """Return the first JSON object or list in what `program` printed, warnings or not before it."""
    if len(text) > _MOST_CHARACTERS:
        raise ReadFailed(f"{program} printed more than {_MOST_CHARACTERS >> 20} MiB")
    decoder = json.JSONDecoder()
    starts = (match.end() - 1 for match in _OPENING.finditer(text))
    for start, _ in zip(starts, range(_MOST_ATTEMPTS), strict=False):
        try:
            return decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    raise ReadFailed(f"{program} printed no whole JSON: {excerpt(text)}")


def excerpt(text: str) -> str:
    """Return the first line that says something, fit for a message."""
    lines = (sanitize_text(line, 120) for line in text[:4096].splitlines())
    return next((line for line in lines if line.strip("=-+| \t")), "nothing")


def parse_number(value: Any) -> float | None:
    """Return the number at the front of what was printed, or in {"value", "unit"}."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        match = _NUMBER.match(value.strip())
        return float(match[1]) if match else None
    # A bool is an int to Python, and no reading.
    if isinstance(value, float) or (type(value) is int and abs(value) < 1 << 70):
        return float(value)
    return None


def parse_int(value: Any) -> int | None:
    """Return the same as an integer; bytes keep their last digit."""
    exact = _exact(value)
    if exact is not None:
        return exact
    found = parse_number(value)
    return round(found) if found is not None and abs(found) < 1 << 70 else None


def _exact(value: Any) -> int | None:
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return value if type(value) is int else None


def parse_bytes(value: Any, unit: str | None = None) -> int | None:
    """Return bytes; these programs write MB for 2²⁰ bytes."""
    if unit is None and isinstance(value, dict):
        unit = value.get("unit")
    factor = _UNITS.get(unit.upper()) if isinstance(unit, str) else None
    if factor is None:
        return None
    exact, amount = _exact(value), parse_number(value)
    if exact is not None:
        return exact * factor
    return None if amount is None else parse_int(amount * factor)


def parse_text(value: Any, max_length: int = 128) -> str | None:
    """Return text that says something, made harmless."""
    text = sanitize_text(value, max_length) if isinstance(value, str) else ""
    return None if text.lower() in _UNKNOWN else text
