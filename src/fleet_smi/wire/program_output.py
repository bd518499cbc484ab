"""Parse values in the output of other programs: JSON behind warnings, units, "N/A"."""

import json
import re
from collections.abc import Iterable
from typing import Any

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.model.safe_text import sanitize_text

_MAX_CHARS = 16 << 20
# A warning may start with a bracket, too. Each attempt may read all of the text: a few must do.
_MAX_ATTEMPTS = 16
_OPENING = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
# Matched at the start: "45.0", "(1600Mhz)", "16.0GT/s x16", "42 %". Never from "N/A" or "0x1002".
_NUMBER = re.compile(r"\(?(-?[0-9]{1,20}(?:\.[0-9]{1,20})?)(?![0-9x.])", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_MAX_MESSAGE_CHARS = 4096
_NO_DEVICE = re.compile(
    r"^.{0,80}(?:unable to detect any gpu|no (?:amd |intel )?(?:gpu|device)s?\b"
    r"|driver not initialized|not found in modules).{0,80}$",
    re.IGNORECASE | re.MULTILINE,
)
_UNKNOWN = frozenset({"", "n/a", "none", "unknown", "not supported", "unsupported"})
# Powers of two for "MB" as well: these programs mean MiB by it.
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
    """Return the first JSON object or list in the output of `program`; skip warnings before it.

    Raise `ReadFailed` if there is none.
    """
    if len(text) > _MAX_CHARS:
        raise ReadFailed(f"{program} printed more than {_MAX_CHARS >> 20} MiB")
    decoder = json.JSONDecoder()
    starts = (match.end() - 1 for match in _OPENING.finditer(text))
    for start, _ in zip(starts, range(_MAX_ATTEMPTS), strict=False):
        try:
            return decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    raise ReadFailed(f"{program} printed no whole JSON: {excerpt(text)}")


def no_device_error(program: str, texts: Iterable[str]) -> NotPresent | None:
    """Return `NotPresent` where a program printed that the machine has no such GPU."""
    for text in texts:
        match = _NO_DEVICE.search(text[:_MAX_MESSAGE_CHARS])
        if match:
            return NotPresent(f"{program} finds no GPU: {excerpt(match[0])}")
    return None


def excerpt(text: str) -> str:
    """Return the first line with letters or digits in it, sanitised for a message."""
    lines = (sanitize_text(line, 120) for line in text[:4096].splitlines())
    return next((line for line in lines if line.strip("=-+| \t")), "nothing")


def parse_number(value: Any) -> float | None:
    """Return the number at the start of a text or in {"value", "unit"}; `None` without one."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        match = _NUMBER.match(value.strip())
        return float(match[1]) if match else None
    # A bool is an int in Python, but no number that a program measured.
    if isinstance(value, float) or (type(value) is int and abs(value) < 1 << 70):
        return float(value)
    return None


def parse_int(value: Any) -> int | None:
    """Return the number as an integer; large whole numbers are exact, not rounded as floats."""
    exact = _exact(value)
    if exact is not None:
        return exact
    number = parse_number(value)
    return round(number) if number is not None and abs(number) < 1 << 70 else None


def _exact(value: Any) -> int | None:
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return value if type(value) is int else None


def parse_bytes(value: Any, unit: str | None = None) -> int | None:
    """Return a size in bytes; `None` without a known unit."""
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
    """Return sanitised text, `None` for "N/A" and other spellings of unknown."""
    text = sanitize_text(value, max_length) if isinstance(value, str) else ""
    return None if text.lower() in _UNKNOWN else text
