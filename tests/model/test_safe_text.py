"""Sanitised text and natural sorting."""

import pytest

from fleet_smi.model.safe_text import is_safe_text, natural_sort_key, sanitize_text


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("python train.py", "python train.py"),
        ("a\x1b[31mred", "a [31mred"),
        ("two\r\nlines", "two lines"),
        ("evil\u202etxt.exe", "evil txt.exe"),
        ("\ud800", ""),
        ("\x00\x00", ""),
        ("Grüße, 世界", "Grüße, 世界"),
    ],
)
def test_control_characters_become_blanks(text: str, cleaned: str) -> None:
    assert sanitize_text(text, 100) == cleaned


INVISIBLE = [
    *"\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u180b\u180e\u2000\u200b\u200d\u202e\u202f\u205f",
    *"\u2064\u2069\u206f\u2800\u3000\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9",
    *"\U0001d173\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef",
]


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_invisible_characters_become_blanks(character: str) -> None:
    assert sanitize_text(character * 3, 100) == ""
    assert sanitize_text(f"gpu{character}01", 100) == "gpu 01"
    assert not is_safe_text(f"gpu{character}01")


@pytest.mark.parametrize("text", ["gpu01 🚀", "山田太郎", "한국어", "اسم", "naïve", "⣿", "हिन्दी"])
def test_letters_and_signs_of_every_script_are_left(text: str) -> None:
    assert is_safe_text(text)
    assert sanitize_text(text, 100) == text


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert sanitize_text("abcdef", 6) == "abcdef"
    assert sanitize_text("abcdefg", 6) == "abcde…"
    assert sanitize_text("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_a_cut_is_marked_even_where_blanks_were_stripped() -> None:
    assert sanitize_text("ab\x00\x00\x00\x00cdefgh", 8).endswith("…")


@pytest.mark.parametrize(
    "names",
    [
        ["gpu2", "gpu10", "gpu100"],
        ["a1b2", "a1b10", "a2b1"],
        ["1", "2", "10", "node"],
        ["", "a"],
    ],
)
def test_numbers_in_names_sort_by_size(names: list[str]) -> None:
    assert sorted({*names}, key=natural_sort_key) == names


def test_a_number_of_any_length_can_be_sorted() -> None:
    assert natural_sort_key("9" * 10_000) < natural_sort_key("1" + "0" * 10_000)
