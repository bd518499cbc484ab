"""Sanitised text: control and invisible characters removed from text of others; natural sorting."""

import re

# Control characters (C0, DEL, C1), line separators and surrogates; marks that reorder or hide what
# follows; and what shows as nothing or as a blank, with which one name looks like another or empty:
# other blanks, soft hyphens, fillers of Hangul and Braille, variation selectors, tags.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_DIGITS = re.compile("([0-9]+)")


def is_safe_text(text: str) -> bool:
    """Return whether `sanitize_text` would leave every character of this text."""
    return (text.isascii() and text.isprintable()) or _UNSAFE.search(text) is None


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
