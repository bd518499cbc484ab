"""Parsing and formatting of sizes, durations and counts."""

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.model.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_duration,
    format_elapsed,
    format_gib,
    format_size,
    parse_duration,
    parse_memory,
    parse_size,
    pluralize,
)


@pytest.mark.parametrize(
    "text, count",
    [
        ("0", 0),
        ("512", 512),
        ("20GiB", 20 * GIB),
        ("20G", 20 * GIB),
        ("20 gib", 20 * GIB),
        ("20GB", 20 * 10**9),
        ("1.5TiB", 3 * TIB // 2),
        ("512MiB", 512 * MIB),
        ("7kb", 7000),
        ("7 B", 7),
    ],
)
def test_a_size_is_parsed(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "-1G", "20 apples", "1e9", "20GiBs", "9" * 400])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_memory_that_a_user_asks_for_has_a_unit() -> None:
    assert parse_memory("20GiB") == 20 * GIB
    assert parse_memory("0") == 0
    for text in ("5", " 5 ", "0.5"):
        with pytest.raises(UsageError, match=r"has no unit: write [05.]+GiB or"):
            parse_memory(text)


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 MiB"),
        (1, "1 KiB"),
        (300 * KIB, "300 KiB"),
        (420 * MIB, "420 MiB"),
        (GIB - 1, "1.0 GiB"),
        (MIB - 1, "1 MiB"),
        (int(16.2 * GIB), "16.2 GiB"),
        (200 * GIB, "200.0 GiB"),
        (20 * TIB, "20.0 TiB"),
    ],
)
def test_a_size_is_formatted_in_the_unit_that_suits_it(count: int, text: str) -> None:
    assert format_size(count) == text


def test_gibibytes_have_one_decimal() -> None:
    assert format_gib(85_520_809_984) == "79.6"


@pytest.mark.parametrize(
    "seconds, text",
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (5000, "1 h 23 min"),
        (3 * 3600 + 1800, "3 h"),
        (52 * 3600, "2 d 4 h"),
        (20 * 86400 + 3600, "20 d"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "text, seconds", [("90", 90), ("90s", 90), ("10min", 600), ("1.5 h", 5400), ("2D", 172_800)]
)
def test_a_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 weeks"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("seconds", [None, 1e300, float("nan"), float("inf")])
def test_an_implausible_time_is_unknown(seconds: float | None) -> None:
    assert format_elapsed(seconds) == "—"


@pytest.mark.parametrize(
    "count, noun, expected",
    [(1, "process", "1 process"), (3, "process", "3 processes"), (0, "GPU", "0 GPUs")],
)
def test_nouns_are_pluralized(count: int, noun: str, expected: str) -> None:
    assert pluralize(count, noun) == expected
