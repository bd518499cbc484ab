"""Properties of every verdict, whatever a driver reports."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import STATES, State, Verdict
from fleet_smi.model.snapshot import Fault, Gpu, Instance, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.hysteresis import SampleTiming, Standing, apply_sample
from fleet_smi.model.verdict.judge import judge, judge_instance
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import Window, observe
from tests.builders import NOON, gpu, process

LAW = Thresholds()
RANK: dict[State, int] = {"free": 0, "unknown": 1, "ghost": 2, "held": 2, "busy": 3}

# Values around every threshold, sentinels, and whatever else a float or integer can be.
percents = (
    st.none() | st.sampled_from([0.0, 1.9, 2.0, 9.9, 10.0, 50.0, 100.0, 2.0**32]) | st.floats()
)
sizes = st.none() | st.sampled_from([0, 4 * MIB, GIB - 1, GIB, 71 * GIB, 10**20]) | st.integers()
times = st.none() | st.floats()
texts = st.none() | st.text(max_size=8)


def processes(**fixed: Any) -> st.SearchStrategy[Process]:
    fields: dict[str, Any] = {
        "pid": st.integers(0, 12),
        "kind": st.sampled_from(["compute", "graphics", "compute+graphics", "mps"]),
        "gpu_memory_bytes": sizes,
        "user": st.sampled_from([None, "", "alice", "bob", "carol", "dave"]),
        "uid": st.none() | st.integers(),
        "name": st.sampled_from([None, "python", "nvidia-cuda-mps-server"]),
        "started_at": times,
        "condition": st.sampled_from([None, None, "zombie", "uninterruptible"]),
        "hidden": st.booleans(),
    }
    return st.builds(Process, **(fields | fixed))


crowds = st.lists(processes(), max_size=3).map(tuple)
faults = st.builds(
    Fault,
    kind=st.sampled_from(
        ["lost", "needs_reset", "not_answering", "mismatch", "missing", "unreadable"]
    ),
    detail=st.text(max_size=8),
    remedy=texts,
    since=times,
)
instances = st.builds(
    Instance,
    uuid=st.sampled_from(["MIG-1", "MIG-2", "MIG-3"]),
    memory_used_bytes=sizes,
    memory_total_bytes=sizes,
    busy_percent=percents,
    processes=st.none() | crowds,
)
gpus = st.builds(
    Gpu,
    uuid=st.just("GPU-1"),
    index=st.just(0),
    vendor=st.just("nvidia"),
    memory_used_bytes=sizes,
    memory_total_bytes=sizes,
    memory_shared=st.booleans(),
    busy_percent=percents,
    encoder_percent=percents,
    power_watts=percents,
    power_limit_watts=percents,
    ecc_uncorrected=st.none() | st.sampled_from([0, 0, 0, 3, 2**64 - 1]),
    compute_mode=st.sampled_from([None, "default", "prohibited"]),
    mig_mode=st.sampled_from([None, False, False, True]),
    asleep=st.booleans(),
    instances=st.lists(instances, max_size=3).map(tuple),
    processes=st.none() | crowds,
    fault=st.none() | st.none() | faults,
)
# GPUs in order, so that only use can decide.
sound_crowds = st.lists(
    processes(
        gpu_memory_bytes=st.none() | st.integers(0, 70 * GIB),
        started_at=st.none() | st.floats(NOON - 9000, NOON),
    ),
    max_size=3,
    unique_by=lambda one: one.pid,
).map(tuple)
loads = st.sampled_from([0.0, 1.0, 1.9, 2.0, 5.0, 9.0, 10.0, 11.0, 60.0, 100.0])
memories = st.sampled_from([0, 4 * MIB, 900 * MIB, GIB - 1, GIB, 2 * GIB, 71 * GIB])
sound_gpus = st.builds(
    gpu,
    processes=st.none() | sound_crowds,
    memory_used_bytes=memories,
    busy_percent=loads,
    power_watts=st.sampled_from([None, 70.0, 600.0]),
)
paces = st.sampled_from([1.0, 30.0, 119.0])


def samples_of(cards: list[Gpu], pace: float) -> Window:
    seen = None
    for number, card in enumerate(cards):
        seen = observe(seen, card, NOON + number * pace, LAW)
    assert seen is not None
    return seen


def verdict_of(cards: list[Gpu], pace: float) -> Verdict:
    return judge(cards[-1], samples_of(cards, pace), NOON + (len(cards) - 1) * pace, LAW)


def standings_of(cards: list[Gpu], pace: float) -> list[Standing]:
    standings: list[Standing] = []
    for number, card in enumerate(cards):
        known = standings[-1] if standings else None
        standings.append(
            apply_sample(known, card, card, SampleTiming(NOON + number * pace, pace), LAW)
        )
    return standings


@given(st.lists(gpus, min_size=1, max_size=4), st.none() | st.floats(0, 1e9))
def test_every_gpu_gets_a_state_and_a_reason_and_none_raises(
    cards: list[Gpu], silent: float | None
) -> None:
    seen = samples_of(cards, 1.0)
    verdict = judge(cards[-1], seen, NOON + 3, LAW, silent_seconds=silent)
    assert verdict.state in STATES
    assert verdict.reason.strip()
    assert verdict.since <= NOON + 3
    for part in cards[-1].instances:
        seen = observe(None, part, NOON, LAW, cards[-1])
        assert judge_instance(part, cards[-1], seen, NOON, LAW).reason.strip()


@given(gpus, st.floats(0, 1e9), st.sampled_from(STATES))
def test_a_silent_node_has_no_free_gpu(card: Gpu, silent: float, state: State) -> None:
    before = Verdict(state=state, reason="as it was", since=NOON)
    seen = observe(None, card, NOON, LAW)
    for previous in (None, before):
        verdict = judge(card, seen, NOON, LAW, silent_seconds=silent, previous=previous)
        assert verdict.state in ("unknown", "broken")


@given(sound_gpus, st.randoms(use_true_random=False), st.integers(1, 8), paces)
def test_the_order_of_processes_does_not_matter(
    card: Gpu, random: Any, count: int, pace: float
) -> None:
    shuffled = list(card.processes or ())
    random.shuffle(shuffled)
    other = replace(card, processes=None if card.processes is None else tuple(shuffled))
    assert verdict_of([card] * count, pace) == verdict_of([other] * count, pace)


ADDED = [
    process(99, kind=kind, name=name, gpu_memory_bytes=held, hidden=hidden, condition=condition)
    for kind in ("compute", "graphics", "compute+graphics", "mps")
    for name in ("Xorg", "nvidia-cuda-mps-server")
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


@given(sound_gpus, processes(pid=st.just(99)), st.integers(1, 8), paces)
def test_one_more_process_never_frees_a_gpu(
    card: Gpu, more: Process, count: int, pace: float
) -> None:
    if card.processes is None:
        return
    crowded = replace(card, processes=(*card.processes, more))
    if verdict_of([crowded] * count, pace).state == "free":
        assert verdict_of([card] * count, pace).state == "free"


@given(sound_gpus, memories, st.integers(1, 8), paces)
def test_more_memory_never_makes_a_gpu_more_free(
    card: Gpu, more: int, count: int, pace: float
) -> None:
    fuller = replace(card, memory_used_bytes=max(more, card.memory_used_bytes or 0))
    before, after = verdict_of([card] * count, pace), verdict_of([fuller] * count, pace)
    if after.state == "free":
        assert before.state == "free"


@given(sound_gpus, st.lists(st.tuples(loads, loads), min_size=1, max_size=20), paces)
def test_more_utilisation_never_makes_a_gpu_more_free(
    card: Gpu, steps: list[tuple[float, float]], pace: float
) -> None:
    less = [replace(card, busy_percent=min(step)) for step in steps]
    more = [replace(card, busy_percent=max(step)) for step in steps]
    assert RANK[verdict_of(less, pace).state] <= RANK[verdict_of(more, pace).state]


@given(st.lists(sound_gpus, min_size=2, max_size=20), paces)
def test_since_never_moves_back_and_never_lies_in_the_future(cards: list[Gpu], pace: float) -> None:
    standings = standings_of(cards, pace)
    assert all(standing.verdict.since <= standing.window.last_at for standing in standings)
    for before, after in pairwise(standings):
        same = before.verdict.state == after.verdict.state
        if same:
            assert after.verdict.since == before.verdict.since
        else:
            assert after.verdict.since >= before.verdict.since


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
    changes = sum(before != after for before, after in pairwise(states))
    assert changes <= 1


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
    ceiling = LAW.memory_ceiling(card.memory_total_bytes)
    cards = [replace(card, memory_used_bytes=int(share * ceiling)) for share in shares]
    assert changes_of_state(cards) <= 1


@given(
    st.sampled_from([(), None, (process(kind="graphics"),)]),
    st.sampled_from([None, 70.0, 600.0]),
    near(LAW.display_percent, 0.4),
)
def test_utilisation_near_that_of_a_display_changes_the_state_once_at_most(
    crowd: tuple[Process, ...] | None, watts: float | None, percents: list[float]
) -> None:
    card = gpu(processes=crowd, power_watts=watts)
    cards = [replace(card, busy_percent=percent) for percent in percents]
    assert changes_of_state(cards) <= 1


@given(st.sampled_from([4 * MIB, 71 * GIB]), near(LAW.idle_power_fraction * 700, 0.15))
def test_power_near_that_of_an_idle_gpu_changes_the_state_once_at_most(
    used: int, watts: list[float]
) -> None:
    card = gpu(busy_percent=None, memory_used_bytes=used)
    assert changes_of_state([replace(card, power_watts=watt) for watt in watts]) <= 1


@pytest.mark.parametrize("run", [1, 2, 3, 5, 7])
def test_memory_that_swings_across_its_ceiling_does_not_flap(run: int) -> None:
    low, high = gpu(memory_used_bytes=1000 * MIB), gpu(memory_used_bytes=1060 * MIB)
    assert changes_of_state(([low] * run + [high] * run) * 10) <= 1


@given(st.lists(sound_gpus, min_size=1, max_size=6), paces)
def test_a_new_process_changes_the_state_immediately(cards: list[Gpu], pace: float) -> None:
    taken = gpu(processes=(process(99),), busy_percent=80.0, memory_used_bytes=17 * GIB)
    assert standings_of([*cards, taken], pace)[-1].verdict.state == "busy"


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
