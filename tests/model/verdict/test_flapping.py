"""Flapping: readings that alternate do not make a verdict alternate, and an exit frees a GPU."""

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Fault, Gpu, Process
from fleet_smi.model.units import GIB, MIB
from tests.builders import NOON, gpu, process
from tests.model.verdict.strategies import (
    THRESHOLDS,
    loads,
    memories,
    processes,
    sound_gpus,
    standings_of,
)

WINDOW = THRESHOLDS.idle_window_seconds
BUSY = gpu(processes=(process(),), busy_percent=90.0, memory_used_bytes=17 * GIB)
SMALL = gpu(
    processes=(process(gpu_memory_bytes=420 * MIB),), busy_percent=0.0, memory_used_bytes=420 * MIB
)


def states_of(cards: list[Gpu], interval: float) -> list[State]:
    return [standing.verdict.state for standing in standings_of(cards, interval)]


def changes(states: list[State]) -> int:
    return sum(before != after for before, after in pairwise(states))


@pytest.mark.parametrize("run", [1, 2, 3, 4, 6, 10])
@pytest.mark.parametrize("interval", [2.0, 10.0, 30.0])
def test_load_of_nobody_that_comes_and_goes_is_one_use(run: int, interval: float) -> None:
    idle = gpu(memory_used_bytes=300 * MIB)
    works = replace(idle, busy_percent=30.0)
    count = round(3 * WINDOW / interval / run / 2)
    states = states_of(([idle] * run + [works] * run) * count, interval)
    assert changes(states) <= 3
    assert changes(states[12 * run :]) == 0


@pytest.mark.parametrize("card", [SMALL, BUSY, gpu(memory_used_bytes=71 * GIB), gpu()])
@pytest.mark.parametrize("run", [1, 2, 5])
def test_a_list_that_is_refused_now_and_then_changes_nothing(card: Gpu, run: int) -> None:
    refused = replace(card, processes=None)
    states = states_of(([card] * run + [refused] * run) * 400, 2.0)
    assert changes(states) <= 4  # once held, and for memory of nobody once to and fro
    assert "free" not in states or card == gpu()


def test_a_list_that_is_refused_now_and_then_does_not_make_a_desktop_idle() -> None:
    """Programs of a windowing driver, without a figure for their memory, are never called idle."""
    desktop = process(kind="compute+graphics", gpu_memory_bytes=None)
    card = gpu(processes=(desktop,), memory_used_bytes=2 * GIB)
    states = states_of(([replace(card, processes=None)] * 3 + [card] * 3) * 120, 5.0)
    assert set(states[6:]) == {"busy"}


def test_a_list_that_stays_refused_does_not_free_a_gpu_for_the_window() -> None:
    refused = replace(SMALL, processes=None)
    states = states_of([SMALL] * 10 + [refused] * 90, 10.0)
    assert "free" not in states[: 10 + 58]
    assert states[-1] == "free"


def test_a_process_that_ended_while_the_list_was_refused_frees_its_gpu() -> None:
    states = states_of([BUSY] * 10 + [replace(gpu(), processes=None)] * 3 + [gpu()], 10.0)
    assert states[-2:] == ["busy", "free"]


@pytest.mark.parametrize("run", [1, 2, 3])
def test_processes_that_come_and_go_with_every_sample_are_one_use(run: int) -> None:
    states = states_of(([BUSY] * run + [gpu()] * run) * 200, 2.0)
    assert changes(states) <= 2
    assert set(states[4 * run :]) == {"busy"}


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("pause", [100.0, 300.0])
def test_each_of_several_jobs_frees_its_gpu_when_it_ends(jobs: int, pause: float) -> None:
    quiet = round(pause / 10)
    states = states_of(([gpu()] * quiet + [BUSY] * 6) * jobs + [gpu()], 10.0)
    assert states[-1] == "free"
    assert changes(states) == 2 * jobs


def test_a_gpu_that_flapped_is_free_soon_after_its_last_process() -> None:
    states = states_of([BUSY, gpu()] * 50 + [BUSY] * 10 + [gpu()] * 10, 2.0)
    assert states[-6:] == ["free"] * 6


def test_a_gpu_that_flapped_an_hour_ago_is_free_at_once() -> None:
    states = states_of([BUSY, gpu()] * 50 + [BUSY] * 1800 + [gpu()], 2.0)
    assert states[-1] == "free"


def test_memory_freed_after_the_process_does_not_delay_a_free_gpu() -> None:
    leaving = gpu(memory_used_bytes=17 * GIB)
    turn = [gpu()] * 10 + [BUSY] * 10 + [leaving]
    states = states_of([*turn * 5, gpu()], 10.0)
    assert states[-1] == "free"
    assert "ghost" not in states


def test_a_driver_that_is_slow_every_other_time_does_not_break_its_gpus() -> None:
    slow = replace(gpu(), fault=Fault(kind="slow", detail="driver slow: 4 s so far", since=NOON))
    assert set(states_of([gpu(), slow] * 60, 2.0)) == {"free"}


def test_a_driver_that_stays_slow_breaks_its_gpus_until_it_answers() -> None:
    slow = replace(gpu(), fault=Fault(kind="slow", detail="driver slow: 4 s so far", since=NOON))
    states = states_of([gpu(), slow, slow, slow, gpu()], 2.0)
    assert states == ["free", "free", "free", "broken", "free"]


def test_a_display_that_starts_does_not_hide_the_load_from_before() -> None:
    def card(load: float, *processes: Process) -> Gpu:
        return gpu(processes=processes, busy_percent=load, memory_used_bytes=0)

    past = [card(0.0), *[replace(card(load), processes=None) for load in (10.0, 10.0, 0.0)]]
    display = process(kind="graphics", gpu_memory_bytes=None)
    assert states_of([*past, card(5.0)], 1.0)[-1] == "busy"
    assert states_of([*past, card(5.0, display)], 1.0)[-1] == "busy"


readings = st.builds(
    lambda card, load, used: replace(card, busy_percent=load, memory_used_bytes=used),
    sound_gpus,
    loads,
    memories,
)


@settings(max_examples=25, deadline=None)
@given(readings, readings, st.integers(1, 5), st.integers(1, 5), st.sampled_from([5.0, 10.0, 60.0]))
def test_two_readings_that_alternate_change_the_state_once_a_window_at_most(
    one: Gpu, other: Gpu, first: int, second: int, interval: float
) -> None:
    # Processes that stay away for longer do not flap: each of them frees its GPU when it ends.
    lists = one.processes, other.processes
    assume(None in lists or lists[0] == lists[1] or max(first, second) * interval <= WINDOW / 10)
    turn = [one] * first + [other] * second
    per_window = round(WINDOW / interval)
    states = states_of(turn * (6 * per_window // len(turn)), interval)
    # A hidden process or a held GPU takes a window or two to settle, and to show that it flaps.
    for start in range(3 * per_window, len(states) - per_window, per_window):
        assert changes(states[start : start + per_window]) <= 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(readings, min_size=1, max_size=12),
    readings,
    processes(pid=st.just(99)),
    memories,
    loads,
    st.sampled_from([1.0, 30.0]),
)
def test_more_evidence_in_the_last_sample_never_frees_a_gpu(
    past: list[Gpu], last: Gpu, more: object, used: int, load: float, interval: float
) -> None:
    if last.processes is None:
        return
    crowded = replace(
        last,
        processes=(*last.processes, more),
        memory_used_bytes=max(used, last.memory_used_bytes or 0),
        busy_percent=max(load, last.busy_percent or 0.0),
    )
    if states_of([*past, crowded], interval)[-1] == "free":
        assert states_of([*past, last], interval)[-1] == "free"
