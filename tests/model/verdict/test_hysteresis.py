"""Hysteresis: noise around a threshold does not make a verdict flap, events act immediately."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from tests.builders import NOON, gpu, process
from tests.model.verdict.strategies import THRESHOLDS, intervals, sound_gpus, standings_of


@settings(max_examples=60)
@given(
    sound_gpus,
    st.sampled_from([("busy_percent", 1.9, 2.1), ("busy_percent", 9.0, 11.0)])
    | st.just(("memory_used_bytes", GIB - MIB, GIB + MIB)),
    st.integers(0, 5),
)
def test_flapping_around_a_threshold_does_not_flap_the_verdict(
    card: Gpu, flap: tuple[str, float, float], calm: int
) -> None:
    field, low, high = flap
    under, over = replace(card, **{field: low}), replace(card, **{field: high})
    states = [
        standing.verdict.state
        for standing in standings_of([under] * calm + [over, under] * 250, 1.0)
    ]
    changes = [after for before, after in pairwise(states) if before != after]
    # No state comes back. It may escalate: from free over busy to ghost, if a process is stuck.
    assert len({states[0], *changes}) == 1 + len(changes)
    assert len(changes) <= 2


def near(threshold: float, share: float) -> st.SearchStrategy[list[float]]:
    """Values around a threshold, in runs that outlast the settling or do not."""
    value = st.floats((1 - share) * threshold, (1 + share) * threshold)
    runs = st.lists(st.tuples(value, st.integers(1, 9)), min_size=1, max_size=40)
    return runs.map(lambda some: [value for value, count in some for _ in range(count)])


def changes_of_state(cards: list[Gpu]) -> int:
    states = [standing.verdict.state for standing in standings_of(cards, 0.1)]
    return sum(before != after for before, after in pairwise(states))


empty_gpus = st.builds(
    gpu,
    memory_total_bytes=st.sampled_from([6 * GIB, 80 * GIB]),
    busy_percent=st.sampled_from([None, 0.0, 60.0]),
    power_watts=st.sampled_from([None, 70.0, 600.0]),
)


@given(empty_gpus, near(1.0, 0.15))
def test_memory_near_its_ceiling_changes_the_state_once_at_most(
    card: Gpu, shares: list[float]
) -> None:
    ceiling = THRESHOLDS.memory_ceiling(card.memory_total_bytes)
    cards = [replace(card, memory_used_bytes=int(share * ceiling)) for share in shares]
    assert changes_of_state(cards) <= 1


@given(
    st.sampled_from([(), None, (process(kind="graphics"),)]),
    st.sampled_from([None, 70.0, 600.0]),
    near(THRESHOLDS.display_percent, 0.4),
)
def test_utilisation_near_that_of_a_display_changes_the_state_once_at_most(
    processes: tuple[Process, ...] | None, watts: float | None, percents: list[float]
) -> None:
    card = gpu(processes=processes, power_watts=watts)
    cards = [replace(card, busy_percent=percent) for percent in percents]
    assert changes_of_state(cards) <= 1


@given(st.sampled_from([4 * MIB, 71 * GIB]), near(THRESHOLDS.idle_power_fraction * 700, 0.15))
def test_power_near_that_of_an_idle_gpu_changes_the_state_once_at_most(
    used: int, watts: list[float]
) -> None:
    card = gpu(busy_percent=None, memory_used_bytes=used)
    assert changes_of_state([replace(card, power_watts=watt) for watt in watts]) <= 1


@pytest.mark.parametrize("run", [1, 2, 3, 5, 7])
def test_memory_that_swings_across_its_ceiling_does_not_flap(run: int) -> None:
    low, high = gpu(memory_used_bytes=1000 * MIB), gpu(memory_used_bytes=1060 * MIB)
    assert changes_of_state(([low] * run + [high] * run) * 10) <= 1


@given(st.lists(sound_gpus, min_size=1, max_size=6), intervals)
def test_a_new_process_changes_the_state_immediately(cards: list[Gpu], interval: float) -> None:
    taken = gpu(processes=(process(99),), busy_percent=80.0, memory_used_bytes=17 * GIB)
    assert standings_of([*cards, taken], interval)[-1].verdict.state == "busy"


def test_noise_changes_a_state_only_after_it_has_lasted() -> None:
    noisy = gpu(memory_used_bytes=2 * GIB)
    states = [one.verdict.state for one in standings_of([gpu()] * 3 + [noisy] * 4, 1.0)]
    assert states == ["free"] * 5 + ["ghost"] * 2


def test_two_alternating_states_do_not_keep_a_third_standing() -> None:
    lost = gpu(processes=(), memory_used_bytes=71 * GIB, power_watts=600.0, busy_percent=None)
    ghost = gpu(processes=(), memory_used_bytes=71 * GIB, busy_percent=None)
    states = [
        one.verdict.state for one in standings_of([gpu(busy_percent=None)] + [lost, ghost] * 3, 1.0)
    ]
    assert "free" not in states[3:]


def test_since_is_the_start_of_a_state_that_settled() -> None:
    noisy = gpu(memory_used_bytes=2 * GIB)
    last = standings_of([gpu()] * 3 + [noisy] * 4, 1.0)[-1]
    assert last.verdict.since == NOON + 3


def test_memory_freed_a_moment_after_its_process_ended_is_no_ghost() -> None:
    at_work = gpu(processes=(process(),), busy_percent=90.0, memory_used_bytes=17 * GIB)
    leaving = gpu(busy_percent=30.0, memory_used_bytes=17 * GIB)
    states = [one.verdict.state for one in standings_of([at_work, leaving, gpu(), gpu()], 1.0)]
    assert "ghost" not in states


def test_a_gpu_is_free_as_soon_as_its_process_ended() -> None:
    at_work = gpu(processes=(process(),), busy_percent=90.0, memory_used_bytes=17 * GIB)
    lagging = gpu(busy_percent=40.0, power_watts=300.0)
    assert standings_of([at_work] * 9 + [lagging], 1.0)[-1].verdict.state == "free"


def held_then(*loads: float, interval: float) -> Sequence[str]:
    """States of a GPU whose process was idle for longer than the window, at each load after it."""
    idle = round(THRESHOLDS.idle_window_seconds / interval) + 5
    card = gpu(processes=(process(),), memory_used_bytes=16 * GIB, busy_percent=0.0)
    cards = [card] * idle + [replace(card, busy_percent=load) for load in loads]
    states = [standing.verdict.state for standing in standings_of(cards, interval)]
    assert states[idle - 1] == "held"
    return states[idle:]


@pytest.mark.parametrize("interval, settled_by", [(1.0, 3), (30.0, 3), (60.0, 1), (300.0, 1)])
def test_work_on_a_held_gpu_is_believed_after_three_samples_or_at_once_where_they_are_rare(
    interval: float, settled_by: int
) -> None:
    states = held_then(97.0, 97.0, 97.0, 97.0, interval=interval)
    assert states == ["held"] * (settled_by - 1) + ["busy"] * (5 - settled_by)


@pytest.mark.parametrize("interval", [60.0, 300.0])
def test_noise_in_rare_samples_leaves_a_gpu_held(interval: float) -> None:
    assert set(held_then(*[3.0, 0.0] * 10, interval=interval)) == {"held"}


@pytest.mark.parametrize("interval, settled_by", [(1.0, 3), (30.0, 3), (60.0, 2), (300.0, 2)])
def test_memory_of_nobody_is_a_ghost_after_three_samples_or_a_minute(
    interval: float, settled_by: int
) -> None:
    free, used = gpu(memory_used_bytes=4 * MIB), gpu(memory_used_bytes=71 * GIB)
    states = [
        standing.verdict.state for standing in standings_of([free] * 5 + [used] * 4, interval)
    ]
    assert states[5:] == ["free"] * (settled_by - 1) + ["ghost"] * (5 - settled_by)
