"""Decayed use: a week ago counts half, what is held now counts, and clocks may be wrong."""

import pytest

from fleet_smi.model.queue.use import HALF_LIFE_SECONDS, PastUse, count_held, decay, decayed_hours
from tests.builders import HOUR, NOON

DAY = 86_400.0


def test_use_counts_half_after_a_week() -> None:
    assert decay(100.0, HALF_LIFE_SECONDS) == pytest.approx(50.0)
    assert decay(100.0, 0.0) == 100.0
    assert decay(100.0, -DAY) == 100.0


def test_days_are_added_up_each_at_its_age() -> None:
    first = NOON - 14 * DAY
    daily = [0.0] * 7 + [HOUR * 8] + [0.0] * 7
    assert decayed_hours(daily, first, NOON) == pytest.approx(8 * 0.5 ** (6.5 / 7))
    assert decayed_hours([HOUR], NOON - HOUR, NOON) == pytest.approx(0.5 ** (0.5 * HOUR / 604800))
    assert decayed_hours([HOUR], NOON + DAY, NOON) == 1.0
    assert decayed_hours([], NOON, NOON) == 0.0


def test_running_jobs_are_counted_from_the_first_moment() -> None:
    use = PastUse({"alice": 10.0}, NOON)
    assert use.hours(NOON, {"bob": 2.0}) == {"alice": 10.0, "bob": 2.0}
    later = use.hours(NOON + HOUR, {"bob": 2.0})
    assert later["bob"] == pytest.approx(4.0)
    assert later["alice"] < 10.0


def test_a_clock_that_was_set_back_makes_nobody_use_less_than_nothing() -> None:
    hours = PastUse({"alice": 10.0}, NOON).hours(NOON - DAY, {"alice": 1.0})
    assert hours["alice"] == pytest.approx(11.0)
    assert PastUse().hours(NOON, {"alice": 1.0}) == {"alice": 1.0}


def test_what_a_person_holds_is_added_up() -> None:
    assert count_held([("alice", 1.0), ("bob", 0.5), ("alice", 2.0)]) == {"alice": 3.0, "bob": 0.5}
