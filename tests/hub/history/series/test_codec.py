"""Rows of figures: what is packed comes back, and each sample weighs as long as it held."""

from collections.abc import Iterable, Sequence
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.series.buffer import SampleBuffer, device_uuids
from fleet_smi.hub.history.series.codec import (
    MAX,
    MEAN,
    MIN,
    SeriesArrays,
    align_gpus,
    bin_samples,
    figure_count,
    pack,
    packed_size,
    resample,
    slice_row,
    slice_row_at,
    unpack,
)
from fleet_smi.hub.history.series.rollup import Rollup, RollupTask, roll_up
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.snapshot import Host
from fleet_smi.model.units import GIB
from tests.builders import gpu, snapshot
from tests.hub.history.batches import pack_rows, series_row

FIGURE = st.just(nan) | st.floats(-100.0, 60_000.0, width=16)
FIGURES = st.lists(FIGURE, min_size=2, max_size=2)
SAMPLES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.0, 12.5, 40.0]), FIGURES),
    min_size=1,
    max_size=12,
)
BUSY = 2  # where the load of the first GPU is


class Truth(NamedTuple):
    """A figure over a grain, worked out the slow way."""

    least: float
    mean: float
    most: float
    seconds: float


def true_of(
    samples: Sequence[tuple[float, float]], end: float, grain: tuple[float, float]
) -> Truth:
    """What samples of one figure, each until the next, come to in a grain."""
    known = []
    for (at, value), after in zip(samples, [*[at for at, _ in samples[1:]], end], strict=True):
        held = min(after, grain[1]) - max(at, grain[0])
        if held > 0 and not isnan(value):
            known.append((value, held))
    if not known:
        return Truth(nan, nan, nan, 0.0)
    seconds = sum(held for _, held in known)
    values = [value for value, _ in known]
    mean = sum(value * held for value, held in known) / seconds
    return Truth(min(values), mean, max(values), seconds)


def rows(*values: Iterable[float], seconds: float = 10.0) -> SeriesArrays:
    """Rows with these as their least, their mean and their most."""
    every = np.array([[list(row)] * 3 for row in values], np.float32)
    return SeriesArrays(
        np.arange(0.0, 10.0 * len(every), 10.0), np.full(len(every), seconds), every
    )


@given(SAMPLES, st.sampled_from([0.5, 9.0, 33.0]))
def test_every_sample_weighs_in_every_grain_as_long_as_it_held(
    samples: list[tuple[float, list[float]]], last: float
) -> None:
    times = np.cumsum([1003.0, *[after for after, _ in samples[1:]]])
    figures = np.array([values for _, values in samples], np.float32)
    end = float(times[-1]) + last
    made = bin_samples(times, figures, end, 10)
    assert made.starts.tolist() == list(range(1000, int(-(-end // 10)) * 10, 10))
    for place in range(2):
        column = list(zip(times.tolist(), figures[:, place].tolist(), strict=True))
        for number, start in enumerate(made.starts):
            expected = true_of(column, end, (start, start + 10))
            found = made.values[number, :, place]
            assert found[MIN] == pytest.approx(expected.least, nan_ok=True)
            assert found[MEAN] == pytest.approx(expected.mean, rel=1e-4, abs=1e-2, nan_ok=True)
            assert found[MAX] == pytest.approx(expected.most, nan_ok=True)
            assert made.seconds[number] >= expected.seconds - 1e-6


@given(SAMPLES)
def test_what_is_joined_is_what_it_would_have_been_at_once(
    samples: list[tuple[float, list[float]]],
) -> None:
    times = np.cumsum([1003.0, *[after for after, _ in samples[1:]]])
    # Where a figure is unknown for a while, only the seconds of the others are told of its row.
    figures = np.array([[values[0]] * 2 for _, values in samples], np.float32)
    end = float(times[-1]) + 5.0
    at_once, joined = (
        bin_samples(times, figures, end, 60),
        resample(bin_samples(times, figures, end, 10), 60),
    )
    assert joined.starts.tolist() == at_once.starts.tolist()
    assert joined.seconds == pytest.approx(at_once.seconds)
    assert joined.values == pytest.approx(at_once.values, rel=1e-4, abs=1e-2, nan_ok=True)


@given(
    st.lists(
        st.lists(FIGURE, min_size=figure_count(1), max_size=figure_count(1)), min_size=1, max_size=4
    )
)
def test_what_is_packed_comes_back(values: list[list[float]]) -> None:
    data = pack(rows(*values, seconds=9.5))
    assert {len(one) for one in data} == {packed_size(1)}
    back = unpack([10.0 * place for place in range(len(values))], b"".join(data), 1)
    assert back.seconds.tolist() == [9.5] * len(values)
    assert back.values == pytest.approx(rows(*values).values, rel=1e-3, nan_ok=True)


def test_more_than_can_be_held_is_unknown() -> None:
    back = unpack([0.0], pack(rows((1e6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)))[0], 1)
    assert isnan(back.values[0, MEAN, 0])
    assert back.values[0, MEAN, 1:].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_gpu_keeps_its_figures_in_another_place() -> None:
    moved = align_gpus(rows(map(float, range(12))), ("a", "b"), ("b", "c")).values[0, MEAN]
    assert moved[:7].tolist() == [0.0, 1.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert np.isnan(moved[7:]).all()


def test_of_rows_one_after_another_there_are_parts() -> None:
    some = replace(
        series_row(20), data=pack_rows(*[(float(busy),) * figure_count(2) for busy in range(5)])
    )
    part = slice_row(some, 31.0, 60.0)
    assert part is not None
    assert (part.start, part.data) == (
        40,
        pack_rows((2.0,) * figure_count(2), (3.0,) * figure_count(2)),
    )
    assert slice_row(some, 70.0, 90.0) is None
    assert slice_row(some, 0.0, 29.9) is None
    one = slice_row_at(some, 39.9)
    assert one is not None
    assert (one.start, one.data) == (30, pack_rows((1.0,) * figure_count(2)))
    assert (
        slice_row_at(replace(some, data=pack_rows((nan,) * figure_count(2), seconds=0.0)), 25.0)
        is None
    )


def told(gathering: SampleBuffer, at: float, busy: float | None, uuid: str = "GPU-a") -> None:
    host = Host(cpu_percent=12.5, memory_used_bytes=GIB, memory_total_bytes=4 * GIB)
    card = gpu(busy_percent=busy, memory_used_bytes=8 * GIB, sm_clock_mhz=1980, uuid=uuid)
    found = snapshot(card, host=host)
    gathering.set_gpus(device_uuids(found))
    gathering.add(at, found)


def gathered(*samples: tuple[float, float | None]) -> SampleBuffer:
    gathering = SampleBuffer()
    for at, busy in samples:
        told(gathering, at, busy)
    return gathering


def of_grain(some: Iterable[SeriesRow], grain: int) -> list[tuple[int, list[float]]]:
    """When each row of a grain began, and its values of the load of the first GPU."""
    found: list[tuple[int, list[float]]] = []
    for one in some:
        if one.grain_seconds == grain:
            count = len(one.data) // packed_size(len(one.uuids))
            starts = [one.start + grain * place for place in range(count)]
            read = unpack(starts, one.data, len(one.uuids))
            found += zip(starts, read.values[:, :, BUSY].tolist(), strict=True)
    return found


def test_every_figure_has_its_own_place() -> None:
    (minute,) = [
        one
        for one in roll_up([RollupTask(Rollup("id"), gathered((0.0, 97.0)), 60.0)])
        if one.grain_seconds == 60
    ]
    mean = unpack([0.0], minute.data, 1).values[0, MEAN]
    assert mean.tolist() == [12.5, 25.0, 97.0, 8.0, 71.0, 33.0, 1980.0]


def test_sums_are_of_the_seconds_in_which_something_is_known() -> None:
    told_seldom = gathered((0.0, None), (1.0, 40.0), (2.0, None), (3.0, 50.0))
    sums = told_seldom.sums(0.0, 4.0, [BUSY, BUSY + 2])
    assert sums == {BUSY: (90.0, 2.0), BUSY + 2: (4 * 71.0, 4.0)}
    part = gathered((0.0, 10.0), (9.0, 100.0)).sums(5.0, 10.0, [BUSY])
    assert part == {BUSY: (4 * 10.0 + 100.0, 5.0)}


@pytest.mark.parametrize("load", [1e300, -1e39, inf, nan])
def test_a_figure_that_no_gpu_can_have_is_unknown(load: float) -> None:
    gathering = gathered((0.0, load), (30.0, 50.0))
    assert gathering.sums(0.0, 60.0, [BUSY]) == {BUSY: (30 * 50.0, 30.0)}
    grains = of_grain(roll_up([RollupTask(Rollup("id"), gathering, 60.0)]), 10)
    assert [isnan(values[MEAN]) for _, values in grains] == [True] * 3 + [False] * 3


def test_a_minute_is_done_when_its_time_is_over_and_has_all_of_its_grains() -> None:
    rollup, gathering, done = Rollup("id"), SampleBuffer(), list[SeriesRow]()
    for start in range(0, 1801, 10):
        told(gathering, float(start), start / 18)
        done += roll_up([RollupTask(rollup, gathering, float(start))])
    assert [len(of_grain(done, grain)) for grain in (10, 60, 900)] == [180, 30, 2]
    start, (least, mean, most) = of_grain(done, 900)[1]
    assert start == 900
    assert mean == pytest.approx(sum(range(900, 1800, 10)) / 90 / 18, rel=2e-3)
    assert (least, most) == pytest.approx((50.0, 1790 / 18), rel=1e-3)


def test_many_nodes_at_once_are_each_as_if_they_were_alone() -> None:
    def tasks() -> list[RollupTask]:
        starts = (0.0, 7.5, 120.0, 3600.0)
        some = [gathered(*[(at + n, 10.0 * n + at / 100) for n in range(9)]) for at in starts]
        long = gathered((40.0, 77.0))
        return [
            *[
                RollupTask(Rollup(f"id-{number}"), one, one.since + 200.0)
                for number, one in enumerate(some)
            ],
            RollupTask(Rollup("long"), long, 2000.0, 1960.0),
        ]

    together, alone = roll_up(tasks()), [one for task in tasks() for one in roll_up([task])]
    assert sorted(together, key=str) == sorted(alone, key=str)
    assert {one.node_id for one in together} == {"id-0", "id-1", "id-2", "id-3", "long"}


def test_a_sample_that_holds_for_a_minute_is_in_all_grains_of_it() -> None:
    done = roll_up([RollupTask(Rollup("id"), gathered((5.0, 30.0)), 65.0)])
    grains = of_grain(done, 10)
    assert [start for start, _ in grains] == [0, 10, 20, 30, 40, 50]
    assert {tuple(values) for _, values in grains} == {(30.0, 30.0, 30.0)}


def test_a_sample_that_holds_for_long_is_in_the_coarsest_grain_alone() -> None:
    rollup, gathering = Rollup("id"), gathered((0.0, 90.0))
    before = roll_up([RollupTask(rollup, gathering, 300.0)])
    told(gathering, 300.0, 30.0)
    done = roll_up([RollupTask(rollup, gathering, 2000.0, 1700.0)])
    told(gathering, 2000.0, 60.0)
    done += roll_up([RollupTask(rollup, gathering, 2800.0)])
    assert {one.grain_seconds for one in before} == {10, 60}
    quarters = of_grain(done, 900)
    assert [start for start, _ in quarters] == [0, 900, 1800]
    means = [values[MEAN] for _, values in quarters]
    assert means == pytest.approx([50.0, 30.0, (200 * 30 + 700 * 60) / 900], rel=1e-3)
    assert min(start for start, _ in of_grain(done, 10)) == 1800


def test_a_minute_in_which_the_gpus_changed_has_all_of_them() -> None:
    gathering = gathered((0.0, 30.0))
    told(gathering, 10.0, 60.0, "GPU-b")
    (minute,) = [
        one
        for one in roll_up([RollupTask(Rollup("id"), gathering, 60.0)])
        if one.grain_seconds == 60
    ]
    assert minute.uuids == ("GPU-b", "GPU-a")
    mean = unpack([0.0], minute.data, 2).values[0, MEAN]
    assert (mean[2], mean[7]) == (60.0, 30.0)
    assert gathering.uuids == ("GPU-b",)


def test_an_eighth_of_a_day_has_all_of_its_quarters_and_all_gpus_that_were_in_them() -> None:
    rollup, gathering, done = Rollup("id"), SampleBuffer(), list[SeriesRow]()
    for start in range(0, 10800 + 1, 300):
        done += roll_up([RollupTask(rollup, gathering, float(start))])
        load, uuid = (start / 300, "GPU-a") if start < 5400 else (50.0, "GPU-b")
        told(gathering, float(start), load, uuid)
    (eighth,) = [one for one in done if one.grain_seconds == 10800]
    assert (eighth.start, eighth.uuids) == (0, ("GPU-b", "GPU-a"))
    read = unpack([0.0], eighth.data, 2)
    assert read.seconds.tolist() == [10800.0]
    values = read.values[0]
    assert (values[MEAN, 2], values[MEAN, 7]) == pytest.approx((50.0, 8.5), rel=2e-3)
    assert (values[MIN, 7], values[MAX, 7]) == (0.0, 17.0)


def test_an_eighth_of_a_day_that_a_node_left_early_is_told_once_its_time_is_over() -> None:
    rollup, gathering = Rollup("id"), gathered((0.0, 40.0))
    roll_up([RollupTask(rollup, gathering, 900.0)])
    assert rollup.finish(10799.0) == []
    (eighth,) = rollup.finish(10800.0)
    assert unpack([0.0], eighth.data, 1).seconds.tolist() == [900.0]


def test_what_goes_on_is_told_in_every_grain_and_changes_nothing() -> None:
    rollup, gathering = Rollup("id"), gathered((0.0, 20.0), (900.0, 40.0))
    done = roll_up([RollupTask(rollup, gathering, 930.0)])
    so_far = rollup.partial_rows(gathering, 945.0)
    assert so_far == rollup.partial_rows(gathering, 945.0)
    assert [start for start, _ in of_grain(so_far, 10)] == [900, 910, 920, 930, 940]
    assert {grain: of_grain(so_far, grain)[0][0] for grain in (60, 900, 10800)} == {
        60: 900, 900: 900, 10800: 0,
    }  # fmt: skip
    assert Rollup("id", done, 930.0).partial_rows(gathering, 945.0) == so_far


def test_figures_are_told_of_a_moment_of_which_no_row_is_done() -> None:
    gathering = gathered((5.0, 20.0), (25.0, 40.0))
    found = [Rollup("id").row_at(gathering, at) for at in (24.0, 25.0, 4.0)]
    assert [None if one is None else of_grain([one], 10) for one in found] == [
        [(20, [20.0] * 3)],
        [(20, [40.0] * 3)],
        None,
    ]
