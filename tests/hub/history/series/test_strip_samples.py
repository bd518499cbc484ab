"""Heat-strip samples: written with periods in any order, and read again."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import build_strips
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.strip_samples import (
    NO_SAMPLES,
    SAMPLE_INTERVALS,
    LookInterval,
    PackedSamples,
    SampleKey,
    SampleTimes,
    apply_fills,
    encode_load,
    sample_fills,
)
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.heat_strip import LookSamples
from fleet_smi.model.history import Period, StripRun
from tests.hub.history.batches import DAY, HOUR, gpu, holder, node, period, place
from tests.hub.history.written_history import queries_over

ALICE = holder("alice")
EDGES = st.lists(st.integers(0, 400_000), min_size=2, max_size=12, unique=True).map(sorted)


def noted(stretches: list[LookInterval]) -> dict[SampleKey, PackedSamples]:
    known: dict[SampleKey, PackedSamples] = {}
    for key, more in sample_fills(stretches).items():
        known[key] = apply_fills(known.get(key, NO_SAMPLES), more)
    return known


def picked(known: dict[SampleKey, PackedSamples], moments: SampleTimes) -> LookSamples:
    rows = [known.get(SampleKey(moments.grain, each, 1), NO_SAMPLES) for each in moments.buckets()]
    return moments.make_picker()(rows)


@settings(max_examples=60)
@given(EDGES, st.sampled_from(SAMPLE_INTERVALS), st.randoms(use_true_random=False))
def test_a_sample_shows_the_look_at_its_time_in_any_order_of_writes(
    edges: list[int], grain: int, chance: Random
) -> None:
    stretches = [
        LookInterval(1, float(start), float(end), look, look + 0.4)
        for look, (start, end) in enumerate(pairwise(edges), 1)
    ]
    moments = SampleTimes(grain, list(range(400_000 // grain)))
    expected = [
        next((one.look for one in stretches if one.start <= number * grain < one.end), 0)
        for number in moments.numbers
    ]
    chance.shuffle(stretches)
    found = picked(noted(stretches), moments)
    assert found.looks == expected
    assert list(found.loads) == [encode_load(look + 0.4 if look else None) for look in expected]


def test_a_load_is_stored_to_the_percent_and_unknown_is_not_zero() -> None:
    assert [encode_load(load) for load in (None, 0.0, 99.6, 1e9, -3.0)] == [255, 0, 100, 254, 0]


def stored(store: HistoryStore, *periods: Period) -> HistoryQueries:
    described = WriteBatch(nodes=[node(1)], gpus=[gpu(1)])
    return queries_over(
        store, described, *[WriteBatch(periods=[(place(), one)]) for one in periods]
    )


def drawn(
    queries: HistoryQueries, hours: float, columns: int
) -> list[tuple[float, float, str, object]]:
    def as_tuple(run: StripRun) -> tuple[float, float, str, object]:
        start, end = (run.start - DAY) / HOUR, (run.end - DAY) / HOUR
        return start, end, run.user or run.state, run.busy_percent

    found = build_strips(queries, {place()}, DAY, DAY + hours * HOUR, columns, WriteBatch())
    return [as_tuple(run) for run in found.get(place(), ())]


def test_wide_strips_look_like_narrow_ones(store: HistoryStore) -> None:
    busy = period(DAY + 6 * HOUR, DAY + 30 * HOUR, ALICE, busy_percent=81.0)
    queries = stored(store, busy, period(DAY, DAY + 6 * HOUR))
    expected = [(0, 6, "free", None), (6, 30, "alice", 81.0)]
    assert drawn(queries, 36, 360) == expected  # from periods
    assert drawn(queries, 36, 36) == expected  # from quarters of an hour
    assert drawn(queries, 36, 6) == expected  # from hours


def test_a_period_that_is_written_again_with_a_later_end_extends_its_samples(
    store: HistoryStore,
) -> None:
    open_period = period(DAY, DAY + 3 * HOUR, ALICE)
    queries = stored(
        store, replace(open_period, certain=False), replace(open_period, end=DAY + 8 * HOUR)
    )
    assert drawn(queries, 12, 12) == [(0, 8, "alice", None)]


def test_short_periods_cost_no_row(store: HistoryStore) -> None:
    stored(store, period(DAY + 10.0, DAY + 890.0))
    with store.read_transaction() as connection:
        assert connection.execute(schema.samples.select()).all() == []
