"""Properties of every verdict, whatever a driver reports."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import STATES, State, Verdict
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.judge import judge, judge_instance
from fleet_smi.model.verdict.window import add_sample
from tests.builders import NOON, gpu, process
from tests.model.verdict.strategies import (
    THRESHOLDS,
    gpus,
    intervals,
    loads,
    memories,
    processes,
    sound_gpus,
    standings_of,
    verdict_of,
    window_of,
)

RANK: dict[State, int] = {"free": 0, "unknown": 1, "ghost": 2, "held": 2, "busy": 3}


@given(st.lists(gpus, min_size=1, max_size=4), st.none() | st.floats(0, 1e9))
def test_every_gpu_gets_a_state_and_a_reason_and_none_raises(
    cards: list[Gpu], silent: float | None
) -> None:
    seen = window_of(cards, 1.0)
    verdict = judge(cards[-1], seen, NOON + 3, THRESHOLDS, silent_seconds=silent)
    assert verdict.state in STATES
    assert verdict.reason.strip()
    assert verdict.since <= NOON + 3
    for part in cards[-1].instances:
        seen = add_sample(None, part, NOON, THRESHOLDS, cards[-1])
        assert judge_instance(part, cards[-1], seen, NOON, THRESHOLDS).reason.strip()


@given(gpus, st.floats(0, 1e9), st.sampled_from(STATES))
def test_a_silent_node_has_no_free_gpu(card: Gpu, silent: float, state: State) -> None:
    before = Verdict(state=state, reason="as it was", since=NOON)
    seen = add_sample(None, card, NOON, THRESHOLDS)
    for previous in (None, before):
        verdict = judge(card, seen, NOON, THRESHOLDS, silent_seconds=silent, previous=previous)
        assert verdict.state in ("unknown", "broken")


@given(sound_gpus, st.randoms(use_true_random=False), st.integers(1, 8), intervals)
def test_the_order_of_processes_does_not_matter(
    card: Gpu, random: Any, count: int, interval: float
) -> None:
    shuffled = list(card.processes or ())
    random.shuffle(shuffled)
    other = replace(card, processes=None if card.processes is None else tuple(shuffled))
    assert verdict_of([card] * count, interval) == verdict_of([other] * count, interval)


ADDED = [
    process(99, kind=kind, name=name, gpu_memory_bytes=held, hidden=hidden, condition=condition)
    for kind in ("compute", "graphics", "compute+graphics", "mps")
    for name in ("blender", "nvidia-cuda-mps-server", "nv-hostengine")
    for held in (None, 300 * MIB)
    for hidden in (False, True)
    for condition in (None, "zombie")
]
EMPTY = [
    gpu(busy_percent=load, memory_used_bytes=used, power_watts=watts, memory_shared=shared)
    for load in (None, 0.0, 1.9, 2.0, 5.0, 9.9, 10.0, 100.0)
    for used in (None, 4 * MIB, GIB - 1, GIB, 71 * GIB)
    for watts in (None, 70.0, 600.0)
    for shared in (False, True)
]
EMPTY += [replace(card, encoder_percent=5.0) for card in EMPTY]


@pytest.mark.parametrize("count", [1, 3])
def test_a_process_on_an_empty_gpu_never_frees_it(count: int) -> None:
    taken = [card for card in EMPTY if verdict_of([card] * count, 1.0).state != "free"]
    for card in taken:
        for more in ADDED:
            assert verdict_of([replace(card, processes=(more,))] * count, 1.0).state != "free"


@pytest.mark.parametrize("count", [1, 3])
def test_a_desktop_frees_only_the_memory_that_it_accounts_for(count: int) -> None:
    for card in EMPTY:
        held = min(card.memory_used_bytes or 0, 3 * GIB)
        screen = process(99, kind="graphics", name="Xorg", gpu_memory_bytes=held)
        with_screen = verdict_of([replace(card, processes=(screen,))] * count, 1.0)
        rest = None if card.memory_used_bytes is None else card.memory_used_bytes - held
        if with_screen.state == "free" and not card.memory_shared:
            without = verdict_of([replace(card, memory_used_bytes=rest)] * count, 1.0)
            assert without.state == "free"


@given(sound_gpus, processes(pid=st.just(99)), st.integers(1, 8), intervals)
def test_one_more_process_never_frees_a_gpu(
    card: Gpu, more: Process, count: int, interval: float
) -> None:
    if card.processes is None:
        return
    crowded = replace(card, processes=(*card.processes, more))
    if verdict_of([crowded] * count, interval).state == "free":
        assert verdict_of([card] * count, interval).state == "free"


@given(sound_gpus, memories, st.integers(1, 8), intervals)
def test_more_memory_never_makes_a_gpu_more_free(
    card: Gpu, more: int, count: int, interval: float
) -> None:
    fuller = replace(card, memory_used_bytes=max(more, card.memory_used_bytes or 0))
    before, after = verdict_of([card] * count, interval), verdict_of([fuller] * count, interval)
    if after.state == "free":
        assert before.state == "free"


@given(sound_gpus, st.lists(st.tuples(loads, loads), min_size=1, max_size=20), intervals)
def test_more_utilisation_never_makes_a_gpu_more_free(
    card: Gpu, steps: list[tuple[float, float]], interval: float
) -> None:
    less = [replace(card, busy_percent=min(step)) for step in steps]
    more = [replace(card, busy_percent=max(step)) for step in steps]
    assert RANK[verdict_of(less, interval).state] <= RANK[verdict_of(more, interval).state]


@given(st.lists(sound_gpus, min_size=2, max_size=20), intervals)
def test_since_never_moves_back_and_never_lies_in_the_future(
    cards: list[Gpu], interval: float
) -> None:
    standings = standings_of(cards, interval)
    assert all(standing.verdict.since <= standing.window.last_at for standing in standings)
    for before, after in pairwise(standings):
        same = before.verdict.state == after.verdict.state
        if same:
            assert after.verdict.since == before.verdict.since
        else:
            assert after.verdict.since >= before.verdict.since
