"""Sanitised text: control characters removed from what comes from outside; natural sorting."""

import re

# Control characters (C0, DEL, C1), line separators, and marks that reorder or hide what follows.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]+"
)
_DIGITS = re.compile("([0-9]+)")


def sanitize_text(text: str, limit: int) -> str:
    """Replace each run of unsafe characters by one blank and cut at `limit` characters."""
    # Cut first: a hostile megabyte must not cost a pass over all of it.
    shown = _UNSAFE.sub(" ", text[:limit]).strip()
    return shown if len(text) <= limit else shown[: limit - 1] + "…"


def natural_sort_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that orders numbers within names by value: gpu2 before gpu10."""
    # A number is compared by its length, then by its digits: int() refuses very long ones.
    parts = _DIGITS.split(text)
    numbers = [part.lstrip("0") for part in parts[1::2]]
    parts[1::2] = numbers
    return tuple([(len(part) if at % 2 else 0, part) for at, part in enumerate(parts)])
