"""The sample window, and the effect of gaps between samples."""

import sys

import pytest

from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import MIB
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.unattributed_load import OverThreshold
from fleet_smi.model.verdict.window import RECENT_SAMPLES, Window, add_sample
from tests.builders import HOUR, NOON, gpu, process

SETTINGS = Thresholds()
IDLE = gpu(processes=(process(),))
AT_WORK = gpu(processes=(process(),), busy_percent=90.0, power_watts=600.0)
FULL = gpu(processes=(process(),), busy_percent=100.0)


def see(*samples: tuple[float, Gpu], interval: float | None = None) -> Window:
    seen = None
    for seconds, card in samples:
        seen = add_sample(seen, card, NOON + seconds, SETTINGS, interval_seconds=interval)
    assert seen is not None
    return seen


def test_the_first_sample_begins_every_run() -> None:
    seen = see((0, IDLE))
    assert (seen.last_at, seen.samples) == (NOON, 1)
    assert (seen.idle_from, seen.low_power_from, seen.worked_at) == (NOON, NOON, None)


def test_an_idle_run_lasts_until_work_begins() -> None:
    assert see((0, IDLE), (60, IDLE)).idle_seconds == 60
    ended = see((0, IDLE), (60, AT_WORK))
    assert (ended.idle_seconds, ended.worked_at) == (None, NOON + 60)
    assert see((0, AT_WORK), (60, IDLE), (120, IDLE)).idle_seconds == 60


def test_a_long_gap_is_not_idle_time() -> None:
    seen = see((0, IDLE), (60, IDLE), (60 + HOUR, IDLE))
    assert seen.idle_seconds == 0
    assert seen.samples == 1


def test_the_longest_gap_depends_on_the_interval() -> None:
    assert see((0, IDLE), (400, IDLE), interval=300.0).idle_seconds == 400
    assert see((0, IDLE), (400, IDLE), interval=1.0).idle_seconds == 0


def test_work_before_a_gap_is_carried_over() -> None:
    assert see((0, AT_WORK), (HOUR, IDLE)).worked_at == NOON


def test_a_clock_that_was_set_back_restarts_the_window() -> None:
    assert see((0, IDLE), (60, IDLE), (-HOUR, IDLE)).idle_seconds == 0


def test_one_missed_reading_does_not_end_an_idle_run() -> None:
    missed = gpu(processes=(process(),), busy_percent=None)
    assert see((0, IDLE), (60, missed), (120, IDLE)).idle_seconds == 120


def test_utilisation_missing_for_long_is_not_measurable() -> None:
    missed = gpu(processes=(process(),), busy_percent=None)
    seen = see((0, IDLE), (60, missed), (120, missed), (180, missed))
    assert (seen.measured_at, seen.recent, seen.idle_from) == (None, (), None)


def test_only_the_last_few_utilisations_are_stored() -> None:
    loads = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]
    seen = see(*[(at, gpu(busy_percent=load)) for at, load in enumerate(loads)])
    assert seen.recent == tuple(loads[-RECENT_SAMPLES:])
    assert seen.median == 55.0


@pytest.mark.parametrize("loads, median", [([], None), ([7.0], 7.0), ([9.0, 1.0, 5.0], 5.0)])
def test_the_median_is_the_middle_of_what_was_measured(
    loads: list[float], median: float | None
) -> None:
    assert Window(last_at=NOON, recent=tuple(loads)).median == median


def test_idle_time_counts_from_when_the_youngest_process_came() -> None:
    joined = gpu(processes=(process(), process(5, "bob", started_at=None)))
    assert see((0, IDLE), (60, IDLE), (120, joined), (180, joined)).idle_seconds == 60


def test_a_process_that_leaves_does_not_reset_the_others() -> None:
    both = gpu(processes=(process(), process(5, "bob")))
    assert see((0, both), (60, IDLE), (120, IDLE)).idle_seconds == 120


def test_the_work_of_ended_processes_does_not_count_on_an_empty_gpu() -> None:
    lagging = gpu(busy_percent=40.0)
    seen = see((0, AT_WORK), (1, AT_WORK), (2, lagging))
    assert (seen.recent, seen.worked_at) == ((), None)


def test_the_start_of_a_process_is_corrected_by_the_clock_skew() -> None:
    started = gpu(processes=(process(started_at=NOON - 3620),))
    seen = add_sample(None, started, NOON, SETTINGS, skew=HOUR)
    assert seen.joined_at == NOON - 20


def test_a_start_in_the_future_is_ignored() -> None:
    assert see((0, gpu(processes=(process(started_at=NOON + HOUR),)))).joined_at is None


def test_full_utilisation_at_idle_power_is_timed() -> None:
    assert see((0, FULL), (60, FULL), (120, FULL)).stalled_seconds == 120
    assert see((0, FULL), (60, AT_WORK), (120, FULL)).stalled_seconds == 0
    assert see((0, IDLE)).stalled_seconds is None


def test_memory_over_its_ceiling_is_high_until_well_under() -> None:
    def level(*sizes: int | None) -> str:
        return see(*[(at, gpu(memory_used_bytes=size)) for at, size in enumerate(sizes)]).level

    assert level(1000 * MIB) == "low"
    assert level(1060 * MIB, 830 * MIB) == "high"
    assert level(1060 * MIB, None) == "unknown"
    assert level(1060 * MIB, None, 830 * MIB) == "high"
    assert level(1060 * MIB, 800 * MIB) == "low"
    assert level(1060 * MIB, 800 * MIB, 1000 * MIB) == "low"


def test_thresholds_are_reset_when_the_processes_change() -> None:
    small = gpu(processes=(process(),), memory_used_bytes=1000 * MIB)
    large = gpu(memory_used_bytes=1060 * MIB, busy_percent=50.0, power_watts=600.0)
    assert see((0, large)).over == OverThreshold(memory=True, load=True, power=True)
    assert see((0, large), (1, small)).over == OverThreshold()


def test_changes_of_processes_and_faults_are_flagged_and_readings_are_not() -> None:
    assert not see((0, IDLE), (1, AT_WORK)).changed
    assert see((0, IDLE), (1, gpu())).changed
    assert see((0, gpu()), (1, gpu(asleep=True))).changed


def test_a_window_stays_small() -> None:
    seen = see(*[(at, AT_WORK) for at in range(5000)])
    assert sys.getsizeof(seen) + sys.getsizeof(seen.recent) < 500
