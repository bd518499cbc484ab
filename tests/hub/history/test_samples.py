"""Samples of how GPUs looked: noted with periods, in whatever order these come, and found again."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history import schema
from fleet_smi.hub.history.asking import Asking
from fleet_smi.hub.history.drawing import strips
from fleet_smi.hub.history.rows import Batch
from fleet_smi.hub.history.samples import (
    NOTHING,
    SAMPLE_SECONDS,
    Key,
    Moments,
    Packed,
    Stretch,
    load_byte,
    marked,
    marks,
)
from fleet_smi.hub.history.store import Store
from fleet_smi.hub.history.writer import Writer
from fleet_smi.model.history import Period, Run
from fleet_smi.model.strip import Samples
from tests.hub.history.batches import DAY, HOUR, KEEP_ALL, gpu, holder, node, period, place

ALICE = holder("alice")
EDGES = st.lists(st.integers(0, 400_000), min_size=2, max_size=12, unique=True).map(sorted)


def noted(stretches: list[Stretch]) -> dict[Key, Packed]:
    known: dict[Key, Packed] = {}
    for key, more in marks(stretches).items():
        known[key] = marked(known.get(key, NOTHING), more)
    return known


def picked(known: dict[Key, Packed], moments: Moments) -> Samples:
    rows = [known.get(Key(moments.grain, each, 1), NOTHING) for each in moments.buckets()]
    return moments.picked()(rows)


@settings(max_examples=60)
@given(EDGES, st.sampled_from(SAMPLE_SECONDS), st.randoms(use_true_random=False))
def test_a_sample_is_what_was_there_then_whatever_was_told_first(
    edges: list[int], grain: int, chance: Random
) -> None:
    stretches = [
        Stretch(1, float(start), float(end), look, look + 0.4)
        for look, (start, end) in enumerate(pairwise(edges), 1)
    ]
    moments = Moments(grain, list(range(400_000 // grain)))
    expected = [
        next((one.look for one in stretches if one.start <= number * grain < one.end), 0)
        for number in moments.numbers
    ]
    chance.shuffle(stretches)
    found = picked(noted(stretches), moments)
    assert found.looks == expected
    assert list(found.loads) == [load_byte(look + 0.4 if look else None) for look in expected]


def test_a_load_is_noted_to_the_percent_and_unknown_is_no_load() -> None:
    assert [load_byte(load) for load in (None, 0.0, 99.6, 1e9, -3.0)] == [255, 0, 100, 254, 0]


def stored(store: Store, *periods: Period) -> Asking:
    writer = Writer(store, KEEP_ALL)
    writer.put(Batch(nodes=[node(1)], gpus=[gpu(1)]))
    for one in periods:
        writer.put(Batch(periods=[(place(), one)]))
    writer.close()
    return Asking(store)


def drawn(asking: Asking, hours: float, columns: int) -> list[tuple[float, float, str, object]]:
    def told(run: Run) -> tuple[float, float, str, object]:
        start, end = (run.start - DAY) / HOUR, (run.end - DAY) / HOUR
        return start, end, run.user or run.state, run.busy_percent

    found = strips(asking, {place()}, DAY, DAY + hours * HOUR, columns, Batch())
    return [told(run) for run in found.get(place(), ())]


def test_wide_strips_look_as_narrow_ones_do(store: Store) -> None:
    busy = period(DAY + 6 * HOUR, DAY + 30 * HOUR, ALICE, busy_percent=81.0)
    asking = stored(store, busy, period(DAY, DAY + 6 * HOUR))
    expected = [(0, 6, "free", None), (6, 30, "alice", 81.0)]
    assert drawn(asking, 36, 360) == expected  # from periods
    assert drawn(asking, 36, 36) == expected  # from quarters of an hour
    assert drawn(asking, 36, 6) == expected  # from hours


def test_a_period_that_is_told_again_and_lasted_longer_is_noted_longer(store: Store) -> None:
    told = period(DAY, DAY + 3 * HOUR, ALICE)
    asking = stored(store, replace(told, certain=False), replace(told, end=DAY + 8 * HOUR))
    assert drawn(asking, 12, 12) == [(0, 8, "alice", None)]


def test_short_periods_cost_no_row(store: Store) -> None:
    stored(store, period(DAY + 10.0, DAY + 890.0))
    with store.reading() as connection:
        assert connection.execute(schema.samples.select()).all() == []
