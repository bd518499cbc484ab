"""Colours by role, and text measured and cut by the room it takes on a terminal."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from fleet_smi.model.fleet import State

TextRole = State | Literal["title", "head", "dim", "warn", "good"]
Span = tuple[str, TextRole | None]

# The 16 colours every terminal has. Faint instead of "bright black" for grey: some well-known
# palettes draw bright black in the colour of their background. Red is for broken alone.
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
_REPLACED = {"Cf": "", "Cc": " ", "Zs": " ", "Zl": " ", "Zp": " "}
_WITHOUT_WIDTH = ("Mn", "Me", "Cf")
ELLIPSIS = "…"


class Paint:
    """Puts colour on text, or leaves it plain when not `on`."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled

    def text(self, text: str, role: TextRole | None) -> str:
        """The text in the colour of its role; blanks around it stay plain."""
        inner = text.strip(" ")
        if not self.enabled or role is None or not inner:
            return text
        before, _, after = text.partition(inner)
        return f"{before}\x1b[{_SGR[role]}m{inner}\x1b[0m{after}"

    def line(self, spans: Iterable[Span], columns: int) -> str:
        """Spans joined to one harmless line of at most `columns`, without trailing blanks."""
        kept = _without_trailing_blanks([(strip_unprintable(text), role) for text, role in spans])
        return "".join(self.text(text, role) for text, role in _cut(kept, columns))


def _without_trailing_blanks(spans: list[Span]) -> list[Span]:
    while spans:
        text, role = spans.pop()
        if text := text.rstrip():
            spans.append((text, role))
            break
    return spans


def _cut(spans: list[Span], columns: int) -> list[Span]:
    if sum(display_width(text) for text, _ in spans) <= columns:
        return spans
    kept: list[Span] = []
    for text, role in spans:
        taken = display_width(text)
        # A span that just fills the line gives way too: something follows it.
        if taken >= columns:
            kept.append((_cut_text(text, columns), role))
            break
        kept.append((text, role))
        columns -= taken
    return kept


def _cut_text(text: str, columns: int) -> str:
    """As much of the text as fits before an ellipsis."""
    room, kept = columns - 1, []
    if room < 0:
        return ""
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def strip_unprintable(text: str) -> str:
    """The text without anything a terminal would obey instead of show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _replacement(c) for c in text)


def _replacement(character: str) -> str:
    return _REPLACED.get(unicodedata.category(character), "?")


def display_width(text: str) -> int:
    """How many columns the text takes: wide characters two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    if unicodedata.category(character) in _WITHOUT_WIDTH or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def truncate(text: str, columns: int) -> str:
    """The text made harmless and, where it is too wide, cut with an ellipsis."""
    text = strip_unprintable(text)
    return text if display_width(text) <= columns else _cut_text(text, columns)


def align_left(text: str, columns: int) -> str:
    """The text at the left of exactly `columns`."""
    text = truncate(text, columns)
    return text + " " * (columns - display_width(text))


def align_right(text: str, columns: int) -> str:
    """The text at the right of exactly `columns`."""
    text = truncate(text, columns)
    return " " * (columns - display_width(text)) + text


def wrap(text: str, columns: int) -> list[str]:
    """The text in lines of at most `columns`, broken at blanks where there are any."""
    lines: list[str] = []
    for word in strip_unprintable(text).split():
        if lines and display_width(lines[-1]) + 1 + display_width(word) <= columns:
            lines[-1] += " " + word
        else:
            lines.append(truncate(word, columns))
    return lines
