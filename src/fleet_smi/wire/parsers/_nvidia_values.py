"""Parse single values as nvidia-smi prints them: numbers with units, spellings of "unknown"."""

import re
from collections.abc import Iterable, Mapping

from fleet_smi.model.range_check import check_range
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Process, ProcessKind
from fleet_smi.model.units import GIB, KIB, MIB

Units = Mapping[str, float]

# Unit in lower case -> factor. A number without a unit is in the unit nvidia-smi uses most.
BYTES: Units = {"": MIB, "mib": MIB, "kib": KIB, "gib": GIB, "b": 1, "bytes": 1}
BYTES_PER_SECOND: Units = {"": 1_000, "kb/s": 1_000, "mb/s": 1_000_000}
PERCENT: Units = {"": 1, "%": 1}
CELSIUS: Units = {"": 1, "c": 1}
WATTS: Units = {"": 1, "w": 1}
MHZ: Units = {"": 1, "mhz": 1}
COUNT: Units = {"": 1, "x": 1}

_NUMBER = re.compile(r"([+-]?\d{1,24}(?:\.\d{1,12})?) {0,8}([A-Za-z%/]{0,8})", re.ASCII)

# The value does not exist on this GPU: unknown, and no reason is worth showing.
_NOT_AVAILABLE = frozenset(
    (
        "",
        "-",
        "n/a",
        "none",
        "not available",
        "not found",
        "not supported",
        "function not found",
        "requested functionality has been deprecated",
    )
)
# Reading the value failed. Where text is expected, only these are known not to be the value.
_ERROR = re.compile(
    r"err!|.*\b(unknown error|insufficient (permissions|size)|is lost|requires? reset|"
    r"no permission|timeout|not permitted)\b.*",
    re.IGNORECASE,
)

_KINDS: dict[str, ProcessKind] = {
    "c": "compute",
    "g": "graphics",
    "c+g": "compute+graphics",
    "m": "mps",
    "m+c": "mps",
    "m+c+g": "mps",
}
_HIDDEN_NAMES = ("not found", "unknown error", "insufficient permissions", "no permission")


def strip_brackets(text: str) -> str:
    """Return the value without padding, and without the brackets around "unknown"."""
    text = text.strip()
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def is_not_available(text: str) -> bool:
    """Return whether the text is one of the spellings of a value that does not exist."""
    return strip_brackets(text).lower() in _NOT_AVAILABLE


def is_error_text(text: str) -> bool:
    """Return whether the text is an error message instead of a value."""
    return _ERROR.fullmatch(strip_brackets(text)) is not None


def unavailable_reason(text: str) -> str | None:
    """Return the message in place of a value, `None` when it is no more than "N/A"."""
    return None if is_not_available(text) else sanitize_text(strip_brackets(text), 80)


def parse_quantity(text: str, units: Units) -> float | None:
    """Return the number in its base unit, `None` for other text or an unknown unit."""
    match = _NUMBER.fullmatch(text.strip())
    factor = None if match is None else units.get(match[2].lower())
    if match is None or factor is None:
        return None
    # `int` where possible: a float rounds counters above 2⁵³.
    value = float(match[1]) if "." in match[1] else int(match[1])
    return value * factor


def first_float(
    field: str, texts: Iterable[str], units: Units, unread: dict[str, str]
) -> float | None:
    """Return the first number in `texts`, if it is in range; else add the reason to `unread`."""
    value = _first(field, texts, units, unread)
    return None if value is None else float(value)


def first_int(field: str, texts: Iterable[str], units: Units, unread: dict[str, str]) -> int | None:
    """Return the result of `first_float`, rounded to a whole number."""
    value = _first(field, texts, units, unread)
    return None if value is None else round(value)


def _first(field: str, texts: Iterable[str], units: Units, unread: dict[str, str]) -> float | None:
    reason: str | None = None
    for text in texts:
        value = parse_quantity(text, units)
        if value is not None:
            return check_range(field, value, unread)
        reason = reason or unavailable_reason(text)
    if reason:
        unread[field] = reason
    return None


def sum_counts(field: str, texts: Iterable[str], unread: dict[str, str]) -> int | None:
    """Return the sum of the counts; `None` without any, or when one could not be read."""
    texts = tuple(texts)
    counts = [count for text in texts if (count := parse_quantity(text, COUNT)) is not None]
    reason = next(
        (
            message
            for text in texts
            if parse_quantity(text, COUNT) is None and (message := unavailable_reason(text))
        ),
        "",
    )
    if reason:
        unread[field] = reason
    elif counts:
        return check_range(field, round(sum(counts)), unread)
    return None


def parse_bool(text: str) -> bool | None:
    """Return whether a switch is on, `None` when the text is neither."""
    state = strip_brackets(text).lower()
    if state in ("enabled", "yes", "on", "active", "true", "1"):
        return True
    return False if state in ("disabled", "no", "off", "not active", "false", "0") else None


def first_text(
    field: str, texts: Iterable[str], max_length: int, unread: dict[str, str]
) -> str | None:
    """Return the first of `texts` that is a value, sanitised; put an error text in `unread`."""
    for text in texts:
        if is_error_text(text):
            unread.setdefault(field, sanitize_text(strip_brackets(text), 80))
        elif not is_not_available(text):
            unread.pop(field, None)
            return sanitize_text(text, max_length) or None
    return None


def make_process(pid: str, kind: str | None, name: str, memory: str) -> Process | None:
    """Build one process from its texts; `None` without a pid."""
    pid_number = first_int("pid", (pid,), COUNT, {})
    if pid_number is None:
        return None
    hidden = strip_brackets(name).lower() in _HIDDEN_NAMES
    command = "" if hidden or is_not_available(name) else sanitize_text(name, 1024)
    short = _short_name(command)
    return Process(
        pid=pid_number,
        kind=_KINDS.get((kind or "C").strip().lower(), "compute"),
        gpu_memory_bytes=first_int("gpu_memory_bytes", (memory,), BYTES, {}),
        name=short or None,
        command=command if command != short else None,
        hidden=hidden,
    )


def _short_name(command: str) -> str:
    # The driver prints a name, a path or a whole command line, and a path may hold blanks:
    # what starts with "-" or "/" after a blank is taken for an argument.
    program = re.split(r" (?=[-/])", command, maxsplit=1)[0]
    return sanitize_text(re.split(r"[/\\]", program.rstrip("/\\"))[-1], 128)
