"""Colours by role, and text measured and cut by the visible_width it takes."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.fleet import STATES
from fleet_smi.terminal.paint import (
    Paint,
    Span,
    align_left,
    align_right,
    display_width,
    strip_unprintable,
    truncate,
    wrap,
)

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=40)


def visible_width(text: str) -> int:
    """The columns of a text, counted without the code under test."""
    zero = ("Mn", "Me", "Cf")
    jamo = range(0x1160, 0x1200)
    return sum(
        0
        if unicodedata.category(each) in zero or ord(each) in jamo
        else 1 + (unicodedata.east_asian_width(each) in ("W", "F"))
        for each in text
    )


@pytest.mark.parametrize(
    "text, columns",
    [("alice", 5), ("山田", 4), ("françois", 8), ("franc\u0327ois", 8), ("▓░ 66°", 6), ("", 0)],
)
def test_wide_characters_take_two_columns_and_combining_marks_none(text: str, columns: int) -> None:
    assert display_width(text) == columns


@pytest.mark.parametrize(
    "text, columns, cut",
    [
        ("alice", 5, "alice"),
        ("alice", 4, "ali…"),
        ("山田太郎", 6, "山田…"),
        ("山田太郎", 4, "山…"),
        ("alice", 1, "…"),
        ("alice", 0, ""),
    ],
)
def test_text_that_is_too_wide_ends_in_an_ellipsis(text: str, columns: int, cut: str) -> None:
    assert truncate(text, columns) == cut


def test_padding_counts_columns_not_characters() -> None:
    assert align_left("山田", 6) + "|" == "山田  |"
    assert align_right("山田", 6) == "  山田"


@given(ANYTHING, st.integers(0, 60))
def test_padded_text_has_exactly_its_width(text: str, columns: int) -> None:
    assert (
        visible_width(align_left(text, columns))
        == visible_width(align_right(text, columns))
        == columns
    )


@given(ANYTHING)
def test_control_characters_are_removed(text: str) -> None:
    assert strip_unprintable(text).isprintable()


def test_escape_codes_lose_their_escape() -> None:
    assert strip_unprintable("\x1b[31mred\x07\u202e\u200b") == " [31mred "


@given(
    st.lists(st.tuples(ANYTHING, st.sampled_from([None, *STATES])), max_size=5), st.integers(0, 60)
)
def test_no_line_is_wider_than_its_columns(spans: list[Span], columns: int) -> None:
    line = Paint(enabled=False).line(spans, columns)
    assert visible_width(line) <= columns
    assert line.isprintable()
    assert line == line.rstrip()


def test_a_truncated_line_ends_in_an_ellipsis_even_if_a_span_fills_it() -> None:
    assert Paint(enabled=False).line([("abcd", None), ("e", None)], 4) == "abc…"
    assert Paint(enabled=False).line([("abcd", None), ("   ", None)], 4) == "abcd"


def test_colour_is_added_only_if_enabled() -> None:
    assert Paint(enabled=True).line([("free", "free")], 10) == "\x1b[32mfree\x1b[0m"
    assert Paint(enabled=False).line([("free", "free")], 10) == "free"


def test_red_is_for_broken_alone() -> None:
    paint = Paint(enabled=True)
    red = [state for state in STATES if "31m" in paint.text("x", state)]
    assert red == ["broken"]


def test_every_state_looks_different() -> None:
    paint = Paint(enabled=True)
    assert len({paint.text("x", state) for state in STATES}) == len(STATES)


@given(ANYTHING, st.integers(1, 60))
def test_wrapped_text_fits_and_keeps_every_word_that_fits(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(visible_width(line) <= columns for line in lines)
    assert " ".join(lines).split() == [
        truncate(word, columns) for word in strip_unprintable(text).split()
    ]
