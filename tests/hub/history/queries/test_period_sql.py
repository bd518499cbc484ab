"""SQL of periods: those that overlap a range, of some GPUs, or the last before a time."""

import pytest

from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.history import NO_USER
from tests.hub.history.batches import (
    gpu,
    holder,
    node,
    period,
    place,
    series_row,
)
from tests.hub.history.written_history import ALICE, BOB, queries_over


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0.0, 99.0, [0, 1, 2]),
        (0.0, 10.0, []),
        (10.0, 20.0, [0]),
        (19.0, 21.0, [0, 1]),
        (20.0, 30.0, [1]),
        (25.0, 26.0, [1]),
        (30.0, 40.0, []),
        (35.0, 41.0, [2]),
        (50.0, 60.0, []),
    ],
)
def test_periods_are_those_that_overlap_with_the_range(
    store: HistoryStore, start: float, end: float, expected: list[int]
) -> None:
    stored = [
        period(10.0, 20.0),
        period(20.0, 30.0, ALICE, BOB),
        period(40.0, 50.0, ALICE, state="held", certain=False),
    ]
    batch = WriteBatch(nodes=[node()], gpus=[gpu()], periods=[(place(), each) for each in stored])
    found = queries_over(store, batch).periods(None, start, end)
    assert [each.gpu for each in found] == [gpu()] * bool(expected)
    assert [each for of_gpu in found for each in of_gpu.periods] == [stored[n] for n in expected]


def test_periods_can_be_limited_to_some_gpus(store: HistoryStore) -> None:
    places = [place(1, 0), place(1, 1), place(2, 0)]
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(1, 1), gpu(2, 0)],
        periods=[(each, period(1.0, 2.0)) for each in places],
    )
    queries = queries_over(store, batch)
    found = queries.periods([place(1, 1), place(2, 0)], 0.0, 9.0)
    assert [each.gpu for each in found] == [gpu(1, 1), gpu(2, 0)]
    assert queries.periods([], 0.0, 9.0) == []


def test_strip_intervals_have_what_a_strip_shows_of_periods(store: HistoryStore) -> None:
    bob = holder("bob", 2, memory_bytes=1 << 30)
    shared = period(20.0, 40.0, ALICE, bob, busy_percent=62.5)
    rows = [(place(), period(10.0, 20.0)), (place(), shared), (place(2), period(0.0, 9.0))]
    nodes, gpus = [node(1), node(2)], [gpu(1), gpu(2)]
    queries = queries_over(store, WriteBatch(nodes=nodes, gpus=gpus, periods=rows))
    both = {place(), place(2)}
    assert queries.strip_intervals({place()}, 0.0, 99.0) == [
        (gpu(1), [(10.0, 20.0, ("free", NO_USER, 0), None), (20.0, 40.0, ("busy", "bob", 1), 62.5)])
    ]
    assert [each.uuid for each, _ in queries.strip_intervals(both, 0.0, 10.0)] == [gpu(2).uuid]
    assert queries.strip_intervals(both, 20.0, 20.0) == []


def test_the_last_period_before_a_time_is_found(store: HistoryStore) -> None:
    presence = [
        Presence(node_id="id-1", start=5.0, end=9.0),
        Presence(node_id="id-1", start=12.0, end=20.0, certain=False),
    ]
    first, second = period(10.0, 20.0), period(20.0, 30.0, BOB)
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(2, 0)],
        periods=[(place(), first), (place(), second)],
        presence=presence,
        series=[
            series_row(0, grain=900),
            series_row(0, grain=60, number=2),
            series_row(0, grain=900, number=2),
        ],
    )
    queries = queries_over(store, batch)
    assert queries.periods_at(9.9) == []
    assert queries.periods_at(19.9) == [(gpu(), first)]
    assert queries.periods_at(1e6) == [(gpu(), second)]
    assert [queries.presence_at(at) for at in (4.0, 11.0, 99.0)] == [[], presence[:1], presence[1:]]
    found = queries.series_at(59.0)
    assert sorted((each.node_id, each.grain_seconds) for each in found) == [
        ("id-1", 900),
        ("id-2", 60),
    ]
    assert [each.node_id for each in queries.series_at(61.0)] == ["id-1", "id-2"]
