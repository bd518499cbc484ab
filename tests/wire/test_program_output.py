"""JSON behind warnings, numbers with units, "N/A" for unknown."""

from typing import Any

import pytest

from fleet_smi.errors import ReadFailed
from fleet_smi.wire.program_output import (
    extract_json,
    parse_bytes,
    parse_int,
    parse_number,
    parse_text,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '\n\nWARNING: low power\n{"a": 1}\n',
        '[WARN] not json\n{"a": 1}\nmore',
        'x\n  {"a": 1}',
    ],
)
def test_json_is_found_behind_other_text(text: str) -> None:
    assert extract_json(text, "a program") == {"a": 1}


@pytest.mark.parametrize("text", ["", "no such command", '{"a": ', "[" * 100_000, "a {1}"])
def test_text_without_json_fails_with_one_line(text: str) -> None:
    with pytest.raises(ReadFailed, match="a program printed no whole JSON") as caught:
        extract_json(text, "a program")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "value, expected",
    [
        ("45.0", 45.0),
        ("(1600Mhz)", 1600.0),
        ("-3 C", -3.0),
        (" 0", 0.0),
        (42, 42.0),
        ({"value": 6, "unit": "W"}, 6.0),
        ("N/A", None),
        ("N/A (Secondary die)", None),
        ("0x1002", None),
        ("1.2.3", None),
        ("", None),
        (None, None),
        (True, None),
        ([1], None),
        ("9" * 40, None),
        (10**400, None),
    ],
)
def test_a_number_is_parsed_at_the_start_or_not_at_all(value: Any, expected: float | None) -> None:
    assert parse_number(value) == expected


def test_large_integers_are_exact() -> None:
    assert parse_int("9007199254740993") == 9007199254740993
    assert parse_bytes("9007199254740993", "B") == 9007199254740993


@pytest.mark.parametrize(
    "value, unit, expected",
    [
        ({"value": 196592, "unit": "MB"}, None, 196592 << 20),
        ("2", "MiB", 2 << 20),
        ({"value": 1.5, "unit": "GB"}, None, 3 << 29),
        ("N/A", "MiB", None),
        ({"value": 5, "unit": "parsec"}, None, None),
        (5, None, None),
    ],
)
def test_a_size_needs_its_unit(value: Any, unit: str | None, expected: int | None) -> None:
    assert parse_bytes(value, unit) == expected


@pytest.mark.parametrize(
    "value, expected",
    [("MI300X", "MI300X"), ("N/A", None), ("", None), (7, None), ("a\x1b[2Jb", "a [2Jb")],
)
def test_words_for_unknown_give_none(value: Any, expected: str | None) -> None:
    assert parse_text(value) == expected
