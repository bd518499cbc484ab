"""Range checks of readings."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from fleet_smi.model.range_check import RANGES, check_range, check_temperature
from fleet_smi.model.snapshot import Gpu, Instance, Process


def numeric_fields() -> set[str]:
    found = set()
    for struct in (Gpu, Instance, Process):
        for field in fields(struct):
            kinds = {field.type, *get_args(field.type)}
            if kinds & {int, float}:
                found.add(field.name)
    return found


def test_every_number_of_the_model_has_a_range() -> None:
    assert set(RANGES) == numeric_fields()


@pytest.mark.parametrize(
    "field, value",
    [
        ("busy_percent", 0),
        ("busy_percent", 100),
        ("fan_percent", 104),
        ("temperature_celsius", -12.5),
        ("memory_used_bytes", 0),
        ("pid", 4_194_304),
    ],
)
def test_a_value_in_range_is_unchanged(field: str, value: float) -> None:
    unread: dict[str, str] = {}
    assert check_range(field, value, unread) == value
    assert unread == {}


@pytest.mark.parametrize(
    "field, value, said",
    [
        ("busy_percent", 101, "out of range: 101"),
        ("busy_percent", 2**32 - 1, "out of range: 4294967295"),
        ("memory_used_bytes", -1, "out of range: -1"),
        ("memory_total_bytes", 2**64 - 1, "out of range: 18446744073709551615"),
        ("power_watts", 5000.5, "out of range: 5000.5"),
        ("temperature_celsius", 2.0**63, "out of range: 9.22337e+18"),
        ("power_watts", math.nan, "out of range: nan"),
        ("power_watts", math.inf, "out of range: inf"),
        ("ecc_corrected", 10**400, "out of range: 24 digits or more"),
        ("pcie_generation", 0, "out of range: 0"),
        ("gpu_instance_id", 2**32 - 1, "out of range: 4294967295"),
    ],
)
def test_a_value_out_of_range_is_unknown_with_the_reason(
    field: str, value: float, said: str
) -> None:
    unread: dict[str, str] = {}
    assert check_range(field, value, unread) is None
    assert unread == {field: said}


def test_an_unmeasured_value_needs_no_reason() -> None:
    unread: dict[str, str] = {}
    assert check_range("busy_percent", None, unread) is None
    assert unread == {}


@pytest.mark.parametrize("busy, expected", [(None, -1), (0, -1), (1, None)])
def test_minus_one_degree_is_a_sentinel_only_under_load(
    busy: float | None, expected: int | None
) -> None:
    unread: dict[str, str] = {}
    assert check_temperature(-1, busy, unread) == expected
    assert bool(unread) == (expected is None)


@given(st.sampled_from(sorted(RANGES)), st.integers() | st.floats())
def test_any_value_is_unchanged_or_removed_with_a_reason(field: str, value: float) -> None:
    unread: dict[str, str] = {}
    kept = check_range(field, value, unread)
    assert (kept is None) == (field in unread)
    assert kept is None or kept is value
