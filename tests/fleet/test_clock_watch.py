"""Clock watch: by how much the clock was set, and what is only time that has passed."""

import pytest

from fleet_smi.fleet.clock_watch import ClockWatch
from tests.builders import HOUR, NOON


@pytest.mark.parametrize("step", [-HOUR, -2.0, 2.0, HOUR])
def test_a_step_is_what_no_time_has_passed_for(step: float) -> None:
    watch = ClockWatch()
    assert watch.step_at(NOON, 100.0) == 0.0
    assert watch.step_at(NOON + 10.0 + step, 110.0) == step
    assert watch.step_at(NOON + 20.0 + step, 120.0) == 0.0


@pytest.mark.parametrize("elapsed", [0.5, HOUR])
def test_time_that_has_passed_is_no_step(elapsed: float) -> None:
    watch = ClockWatch()
    watch.step_at(NOON, 100.0)
    assert watch.step_at(NOON + elapsed, 100.0 + elapsed) == 0.0


def test_without_a_second_clock_only_a_step_back_shows() -> None:
    watch = ClockWatch()
    watch.begin_at(NOON)
    assert watch.step_at(NOON + HOUR, None) == 0.0
    assert watch.step_at(NOON, None) == -HOUR


def test_the_clock_may_have_been_set_back_before_the_first_reading() -> None:
    watch = ClockWatch()
    watch.begin_at(NOON)
    assert watch.step_at(NOON - HOUR, 5.0) == -HOUR
