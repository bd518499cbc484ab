"""Rows of figures: what is packed comes back, what is joined weighs as it lasted."""

from math import isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.hub.history.grains import Row, joined, pack, placed, unpack, width
from fleet_smi.hub.history.pieces import Gatherer, Piece, uuids_in
from fleet_smi.hub.history.rollup import Rollup
from fleet_smi.model.snapshot import Host
from fleet_smi.model.units import GIB
from tests.builders import gpu, snapshot

FIGURE = st.just(nan) | st.floats(-100.0, 60_000.0, width=16)
ROWS = st.integers(0, 3).flatmap(
    lambda gpus: st.lists(
        st.tuples(
            st.floats(0.5, 10.0, width=32),
            st.lists(FIGURE, min_size=width(gpus), max_size=width(gpus)),
        ).map(lambda made: Row(made[0], *(tuple(made[1]),) * 3)),
        min_size=1,
        max_size=6,
    )
)


def same(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one == pytest.approx(other, rel=1e-3, abs=1e-3, nan_ok=True)


@given(ROWS)
def test_what_is_packed_comes_back(rows: list[Row]) -> None:
    for row in rows:
        back = unpack(pack(row))
        assert back.seconds == row.seconds
        assert same(back.mean, row.mean)
        assert same(back.most, row.most)


@given(ROWS)
def test_joined_rows_weigh_as_they_lasted_and_unknown_weighs_nothing(rows: list[Row]) -> None:
    whole = joined(rows)
    for place in range(len(whole.mean)):
        known = [(row.mean[place], row.seconds) for row in rows if not isnan(row.mean[place])]
        if not known:
            assert isnan(whole.mean[place])
            assert isnan(whole.least[place])
            continue
        total = sum(seconds for _, seconds in known)
        mean = sum(value * seconds for value, seconds in known) / total
        spread = max(known)[0] - min(known)[0]
        # Weights within 5 % of each other count as equal.
        assert whole.mean[place] == pytest.approx(mean, abs=1e-6 + 0.025 * spread)
        assert whole.least[place] == min(value for value, _ in known)
        assert whole.most[place] == max(value for value, _ in known)


def test_more_than_can_be_held_is_unknown() -> None:
    row = Row(10.0, *((1e6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0),) * 3)
    assert isnan(unpack(pack(row)).mean[0])
    assert unpack(pack(row)).mean[1:] == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


def test_a_gpu_keeps_its_figures_in_another_place() -> None:
    row = Row(10.0, *(tuple(map(float, range(12))),) * 3)
    moved = placed(row, ("a", "b"), ("b", "c"))
    assert moved.mean[:7] == (0.0, 1.0, 7.0, 8.0, 9.0, 10.0, 11.0)
    assert all(map(isnan, moved.mean[7:]))


def told(gatherer: Gatherer, at: float, busy: float | None) -> None:
    host = Host(cpu_percent=12.5, memory_used_bytes=GIB, memory_total_bytes=4 * GIB)
    card = gpu(busy_percent=busy, memory_used_bytes=8 * GIB, sm_clock_mhz=1980)
    gatherer.gather(at, snapshot(card, host=host))


def piece_of(*samples: tuple[float, float | None], end: float) -> Piece:
    gatherer = Gatherer(uuids_in(snapshot(gpu())))
    for at, busy in samples:
        told(gatherer, at, busy)
    piece = gatherer.piece(end)
    assert piece is not None
    return piece


def test_every_figure_has_its_own_place() -> None:
    piece = piece_of((0.0, 97.0), end=1.0)
    assert piece.row.mean == (12.5, 25.0, 97.0, 8.0, 71.0, 33.0, 1980.0)


def test_a_sample_weighs_as_long_as_it_held() -> None:
    piece = piece_of((0.0, 10.0), (9.0, 100.0), end=10.0)
    busy = piece.row.least[2], piece.row.mean[2], piece.row.most[2]
    assert busy == pytest.approx((10.0, 19.0, 100.0))


def test_what_is_not_told_is_not_weighed() -> None:
    piece = piece_of((0.0, None), (1.0, 40.0), (2.0, None), (3.0, 50.0), end=4.0)
    assert piece.row.mean[2] == 45.0
    assert piece.known is not None
    assert (piece.known[2], piece.known[4]) == (2.0, 4.0)


def test_a_grain_is_done_when_its_time_is_over_and_a_minute_has_all_of_its_grains() -> None:
    rollup, rows = Rollup("id"), []
    for start in range(0, 1800, 10):
        piece = piece_of((float(start), start / 18), end=start + 10.0)
        rows += rollup.take(piece, ("GPU-a",))
    by_grain = {
        grain: [row for row in rows if row.grain_seconds == grain] for grain in (10, 60, 900)
    }
    assert [len(by_grain[grain]) for grain in (10, 60, 900)] == [180, 30, 2]
    quarter = unpack(by_grain[900][1].data)
    assert quarter.seconds == 900.0
    assert quarter.mean[2] == pytest.approx(sum(range(900, 1800, 10)) / 90 / 18, rel=2e-3)
    assert (quarter.least[2], quarter.most[2]) == pytest.approx((50.0, 1790 / 18), rel=1e-3)


def test_a_sample_that_holds_for_a_minute_is_in_all_grains_of_it() -> None:
    rollup = Rollup("id")
    rows = rollup.take(piece_of((5.0, 30.0), end=65.0), ("GPU-a",))
    assert [row.start for row in rows if row.grain_seconds == 10] == [0, 10, 20, 30, 40, 50]
    assert {unpack(row.data).mean[2] for row in rows} == {30.0}


def test_a_sample_that_holds_for_long_is_in_the_coarsest_grain_alone() -> None:
    rollup = Rollup("id")
    before = rollup.take(piece_of((0.0, 90.0), end=300.0), ("GPU-a",))
    rows = rollup.take(piece_of((300.0, 30.0), end=2000.0), ("GPU-a",), 1700.0)
    rows += rollup.take(piece_of((2000.0, 60.0), end=2800.0), ("GPU-a",))
    assert {row.grain_seconds for row in before} == {10, 60}
    quarters = [row for row in rows if row.grain_seconds == 900]
    assert [(row.start, unpack(row.data).seconds) for row in quarters] == [
        (0, 900.0), (900, 900.0), (1800, 900.0),
    ]  # fmt: skip
    means = [unpack(row.data).mean[2] for row in quarters]
    assert means == pytest.approx([50.0, 30.0, (200 * 30 + 700 * 60) / 900], rel=1e-3)
    assert next(row for row in rows if row.grain_seconds == 10).start == 2000


def test_a_minute_in_which_the_gpus_changed_has_all_of_them() -> None:
    rollup = Rollup("id")
    rollup.take(piece_of((0.0, 30.0), end=10.0), ("GPU-a",))
    rows = rollup.take(piece_of((10.0, 60.0), end=60.0), ("GPU-b",))
    (minute,) = [row for row in rows if row.grain_seconds == 60]
    assert minute.uuids == ("GPU-b", "GPU-a")
    mean = unpack(minute.data).mean
    assert (mean[2], mean[7]) == (60.0, 30.0)


def test_an_eighth_of_a_day_has_all_of_its_quarters_and_all_gpus_that_were_in_them() -> None:
    rollup, rows = Rollup("id"), []
    for start in range(0, 10800 + 900, 300):
        load, uuids = (start / 300, ("GPU-a",)) if start < 5400 else (50.0, ("GPU-b",))
        rows += rollup.take(piece_of((float(start), load), end=start + 300.0), uuids)
    (eighth,) = [row for row in rows if row.grain_seconds == 10800]
    assert (eighth.start, eighth.uuids) == (0, ("GPU-b", "GPU-a"))
    row = unpack(eighth.data)
    assert row.seconds == 10800.0
    assert (row.mean[2], row.mean[7]) == pytest.approx((50.0, 8.5), rel=2e-3)
    assert (row.least[7], row.most[7]) == (0.0, 17.0)


def test_an_eighth_of_a_day_that_a_node_left_early_is_told_once_its_time_is_over() -> None:
    rollup = Rollup("id")
    rollup.take(piece_of((0.0, 40.0), end=900.0), ("GPU-a",))
    assert rollup.finish(10799.0) == []
    (eighth,) = rollup.finish(10800.0)
    assert unpack(eighth.data).seconds == 900.0
