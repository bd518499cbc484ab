"""Parsing and formatting of sizes, durations and counts."""

import re

from fleet_smi.errors import UsageError

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
UNKNOWN = "—"
MAX_SECONDS = 4e9
"""Seconds since 1970 up to 2096. Times come from nodes: beyond this they are wrong, and far
beyond it `datetime` raises."""

_MAX_BYTES = 1 << 60
_SIZES = {"": 1, "b": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
# Not compiled here but when first used: most commands need neither, and compiling takes time.
_SIZE = r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?(?:i?b)?)\s*"
_DURATION = r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d|)\s*"


def parse_size(text: str) -> int:
    """Parse "20GiB", "20G" (binary), "20GB" (decimal) or a bare number to bytes.

    Raise `UsageError` if it is not a size.
    """
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size: write it like 20GiB, 512MiB or 8G")
    number, unit = match[1], match[2].lower()
    factor = _DECIMAL.get(unit) or _SIZES[unit.removesuffix("b").removesuffix("i")]
    count = float(number) * factor
    if count >= _MAX_BYTES:
        raise UsageError(f"{text[:20]!r} is too large")
    return int(count)


def parse_memory(text: str) -> int:
    """Parse the memory that a user asks for; a bare number has no unit, and is a `UsageError`."""
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if match is not None and not match[2] and float(match[1]):
        raise UsageError(f"{text!r} has no unit: write {match[1]}GiB or {match[1]}MiB")
    return parse_size(text)


def parse_gibibytes(text: str) -> int:
    """Parse a size to bytes; a bare number is in GiB."""
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    return parse_size(text if match is None or match[2] else f"{match[1]}GiB")


def format_gib(count: int) -> str:
    """Format bytes as a number of GiB with one decimal: "79.6"."""
    return f"{count / GIB:.1f}"


def format_size(count: int) -> str:
    """Format bytes in the unit that suits them: "420 MiB", "16.2 GiB"."""
    # Compared as rounded: 1023.6 MiB reads "1.0 GiB", never "1024 MiB".
    if count < 1023.5 * KIB:
        return f"{max(1, round(count / KIB))} KiB" if count else "0 MiB"
    if count < 1023.5 * MIB:
        return f"{count / MIB:.0f} MiB"
    return f"{count / GIB:.1f} GiB" if count < 10 * TIB else f"{count / TIB:.1f} TiB"


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units: "20 s", "4 min", "3 h", "2 d 4 h"."""
    seconds = max(0, int(seconds))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        rest = minutes % 60
        return f"{hours} h {rest} min" if hours < 3 and rest else f"{hours} h"
    rest = hours % 24
    return f"{days} d {rest} h" if days < 14 and rest else f"{days} d"


def format_elapsed(seconds: float | None) -> str:
    """Return a duration; a dash if it is unknown or not plausible (also NaN)."""
    if seconds is None or not abs(seconds) < MAX_SECONDS:
        return UNKNOWN
    return format_duration(seconds)


def pluralize(count: int, noun: str) -> str:
    """Return the count with its noun: "1 process", "3 processes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


_DURATIONS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Parse "10min", "90s", "2h", "1d" or a bare number of seconds to seconds.

    Raise `UsageError` if it is not a duration.
    """
    match = re.fullmatch(_DURATION, text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a duration: write it like 90s, 10min or 2h")
    return float(match[1]) * _DURATIONS[match[2].lower()]
