"""ANSI colours by role; display width, truncation, padding and wrapping of terminal text."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from fleet_smi.model.fleet import State

TextRole = State | Literal["title", "head", "dim", "warn", "good"]
Span = tuple[str, TextRole | None]

# The 16 colours every terminal has. Grey is faint, not "bright black": some well-known palettes
# draw bright black in their background colour. Red is for broken alone.
_SGR: dict[TextRole, str] = {
    "free": "32",
    "leased": "94",
    "busy": "35",
    "held": "33",
    "ghost": "4;33",
    "broken": "1;31",
    "unknown": "2",
    "title": "1",
    "head": "2",
    "dim": "2",
    "warn": "33",
    "good": "32",
}
# Unicode categories: format characters vanish, controls and separators become a blank.
_REPLACED = {"Cf": "", "Cc": " ", "Zs": " ", "Zl": " ", "Zp": " "}
_ZERO_WIDTH = ("Mn", "Me", "Cf")
ELLIPSIS = "…"
# Besides these, which are one column wide, a table of this program is ASCII but for names.
_UNUSUAL = re.compile("[^\x00-\x7f▓░█·°×…—]")


class Paint:
    """Colours text by role; leaves it plain unless `enabled`."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled

    def text(self, text: str, role: TextRole | None) -> str:
        """Return the text in the colour of its role; leading and trailing blanks stay plain."""
        inner = text.strip(" ")
        if not self.enabled or role is None or not inner:
            return text
        # Colour only the text itself: the underline of a ghost would show on blanks.
        before, _, after = text.partition(inner)
        return f"{before}\x1b[{_SGR[role]}m{inner}\x1b[0m{after}"

    def line(self, spans: Iterable[Span], columns: int, width: int | None = None) -> str:
        """Join spans to one printable line of at most `columns`, without trailing blanks.

        `width` is the display width of all spans, where the caller knows it.
        """
        spans = list(spans)
        # Once for the whole line, and span by span only where a colour needs it: a large fleet has
        # thousands of lines of twenty spans.
        whole = "".join([text for text, _ in spans])
        if width is not None and width <= columns and whole.isprintable():
            if not self.enabled:
                return whole.rstrip()
            return "".join([self.text(*span) for span in _strip_trailing_blanks(spans)])
        if not self.enabled:
            whole = strip_unprintable(whole).rstrip()
            return whole if display_width(whole) <= columns else _truncate_text(whole, columns)
        if whole.isprintable() and display_width(whole) <= columns:
            shown = _strip_trailing_blanks(spans)
        else:
            printable = [(strip_unprintable(text), role) for text, role in spans]
            shown = _truncate_spans(_strip_trailing_blanks(printable), columns)
        return "".join(self.text(text, role) for text, role in shown)


def _strip_trailing_blanks(spans: list[Span]) -> list[Span]:
    while spans:
        text, role = spans.pop()
        if text := text.rstrip():
            spans.append((text, role))
            break
    return spans


def _truncate_spans(spans: list[Span], columns: int) -> list[Span]:
    if sum(display_width(text) for text, _ in spans) <= columns:
        return spans
    shown: list[Span] = []
    for text, role in spans:
        width = display_width(text)
        # A span that exactly fills the line is truncated too: more follows, so "…" must fit.
        if width >= columns:
            shown.append((_truncate_text(text, columns), role))
            break
        shown.append((text, role))
        columns -= width
    return shown


def _truncate_text(text: str, columns: int) -> str:
    """Return as much of the text as fits, and an ellipsis."""
    remaining, shown = columns - 1, []
    if remaining < 0:
        return ""
    for character in text:
        remaining -= _character_width(character)
        if remaining < 0:
            break
        shown.append(character)
    return "".join(shown) + ELLIPSIS


def strip_unprintable(text: str) -> str:
    """Replace control and other unprintable characters, so that no text can send escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _replacement(c) for c in text)


def _replacement(character: str) -> str:
    return _REPLACED.get(unicodedata.category(character), "?")


def display_width(text: str) -> int:
    """Return the columns the text takes: two for wide characters, none for combining marks."""
    if text.isascii() or _UNUSUAL.search(text) is None:
        return len(text)
    # By distinct characters: the bars of a table repeat one many times.
    return len(text) + sum(
        [(_character_width(one) - 1) * text.count(one) for one in set(text) if one > "\x7f"]
    )


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    # U+1160 to U+11FF are Hangul vowels and finals, which combine with the letter before.
    if unicodedata.category(character) in _ZERO_WIDTH or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def truncate(text: str, columns: int) -> str:
    """Return the printable text, shortened with an ellipsis if it is too wide."""
    text = strip_unprintable(text)
    return text if display_width(text) <= columns else _truncate_text(text, columns)


# Cached: the cells of a large table are a few hundred different texts.
@lru_cache(maxsize=8192)
def align_left(text: str, columns: int) -> str:
    """Pad or truncate the text to exactly `columns`, aligned left."""
    text = truncate(text, columns)
    return text + " " * (columns - display_width(text))


@lru_cache(maxsize=8192)
def align_right(text: str, columns: int) -> str:
    """Pad or truncate the text to exactly `columns`, aligned right."""
    text = truncate(text, columns)
    return " " * (columns - display_width(text)) + text


def wrap(text: str, columns: int) -> list[str]:
    """Wrap the text at blanks into lines of at most `columns`; truncate longer words."""
    lines: list[str] = []
    for word in strip_unprintable(text).split():
        if lines and display_width(lines[-1]) + 1 + display_width(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(truncate(word, columns))
    return lines
