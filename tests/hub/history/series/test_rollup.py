"""The rollup: buffered samples become rows of every grain."""

from collections.abc import Iterable
from math import inf, isnan, nan

import pytest

from fleet_smi.hub.history.series.buffer import SampleBuffer
from fleet_smi.hub.history.series.codec import MAX, MEAN, MIN, grain_count, unpack
from fleet_smi.hub.history.series.layout import (
    BUSY_INDEX,
    GPU_COLUMNS,
    NODE_COLUMNS,
    gpu_offset,
)
from fleet_smi.hub.history.series.rollup import Rollup, RollupTask, roll_up, roll_up_isolated
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.units import GIB
from tests.hub.history.series.samples import add_sample, buffer_of

BUSY, SECOND_BUSY = gpu_offset(0) + BUSY_INDEX, gpu_offset(1) + BUSY_INDEX


def load_by_grain(rows: Iterable[SeriesRow], grain: int) -> list[tuple[int, list[float]]]:
    """The start of each row of a grain, with the statistics of the load of the first GPU."""
    found: list[tuple[int, list[float]]] = []
    for row in rows:
        if row.grain_seconds == grain:
            starts = [row.start + grain * index for index in range(grain_count(row))]
            arrays = unpack(starts, row.data, len(row.uuids))
            found += zip(starts, arrays.values[:, :, BUSY].tolist(), strict=True)
    return found


def test_every_figure_has_its_own_column() -> None:
    rows = roll_up([RollupTask(Rollup("id"), buffer_of((0.0, 97.0)), 60.0)])
    (minute,) = [row for row in rows if row.grain_seconds == 60]
    means = unpack([0.0], minute.data, 1).values[0, MEAN].tolist()
    figures = dict(zip((*NODE_COLUMNS, *GPU_COLUMNS), means, strict=True))
    expected = {
        "cpu_percent": 12.5, "memory_percent": 25.0, "busy_percent": 97.0, "sm_clock_mhz": 1980.0,
        "memory_used_bytes": 8.0 * GIB, "power_watts": 71.0, "temperature_celsius": 33.0,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == expected
    assert all(isnan(value) for name, value in figures.items() if name not in expected)


@pytest.mark.parametrize("load", [1e300, -1e39, inf, nan])
def test_an_impossible_figure_is_unknown(load: float) -> None:
    buffer = buffer_of((0.0, load), (30.0, 50.0))
    assert buffer.sums(0.0, 60.0, [BUSY]) == {BUSY: (30 * 50.0, 30.0)}
    grains = load_by_grain(roll_up([RollupTask(Rollup("id"), buffer, 60.0)]), 10)
    assert [isnan(values[MEAN]) for _, values in grains] == [True] * 3 + [False] * 3


def test_rows_are_finished_when_their_time_is_over() -> None:
    rollup, buffer, done = Rollup("id"), SampleBuffer(), list[SeriesRow]()
    for start in range(0, 1801, 10):
        add_sample(buffer, float(start), start / 18)
        done += roll_up([RollupTask(rollup, buffer, float(start))])
    assert [len(load_by_grain(done, grain)) for grain in (10, 60, 900)] == [180, 30, 2]
    start, (least, mean, most) = load_by_grain(done, 900)[1]
    assert start == 900
    assert mean == pytest.approx(sum(range(900, 1800, 10)) / 90 / 18, rel=2e-3)
    assert (least, most) == pytest.approx((50.0, 1790 / 18), rel=1e-3)


def test_rolling_up_many_nodes_together_gives_the_same_rows() -> None:
    def tasks() -> list[RollupTask]:
        starts = (0.0, 7.5, 120.0, 3600.0)
        some = [buffer_of(*[(at + n, 10.0 * n + at / 100) for n in range(9)]) for at in starts]
        long = buffer_of((40.0, 77.0))
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


def test_a_node_that_fails_costs_the_others_of_its_batch_nothing() -> None:
    buffers = [buffer_of((0.0, 97.0)) for _ in range(3)]
    tasks = [RollupTask(Rollup(f"id-{n}"), one, 60.0) for n, one in enumerate(buffers)]
    buffers[1]._samples[0] += b"x"  # an odd number of bytes
    rows, failures = roll_up_isolated(tasks)
    assert {row.node_id for row in rows} == {"id-0", "id-2"}
    assert [failure.node_id for failure in failures] == ["id-1"]


def test_a_sample_that_holds_for_a_minute_is_in_all_of_its_grains() -> None:
    done = roll_up([RollupTask(Rollup("id"), buffer_of((5.0, 30.0)), 65.0)])
    grains = load_by_grain(done, 10)
    assert [start for start, _ in grains] == [0, 10, 20, 30, 40, 50]
    assert {tuple(values) for _, values in grains} == {(30.0, 30.0, 30.0)}


def test_a_sample_that_holds_for_long_is_in_coarse_grains_only() -> None:
    rollup, buffer = Rollup("id"), buffer_of((0.0, 90.0))
    before = roll_up([RollupTask(rollup, buffer, 300.0)])
    add_sample(buffer, 300.0, 30.0)
    done = roll_up([RollupTask(rollup, buffer, 2000.0, 1700.0)])
    add_sample(buffer, 2000.0, 60.0)
    done += roll_up([RollupTask(rollup, buffer, 2800.0)])
    assert {one.grain_seconds for one in before} == {10, 60}
    quarters = load_by_grain(done, 900)
    assert [start for start, _ in quarters] == [0, 900, 1800]
    means = [values[MEAN] for _, values in quarters]
    assert means == pytest.approx([50.0, 30.0, (200 * 30 + 700 * 60) / 900], rel=1e-3)
    assert min(start for start, _ in load_by_grain(done, 10)) == 1800


def test_a_minute_in_which_the_gpus_changed_has_all_of_them() -> None:
    buffer = buffer_of((0.0, 30.0))
    add_sample(buffer, 10.0, 60.0, "GPU-b")
    (minute,) = [
        one for one in roll_up([RollupTask(Rollup("id"), buffer, 60.0)]) if one.grain_seconds == 60
    ]
    assert minute.uuids == ("GPU-b", "GPU-a")
    mean = unpack([0.0], minute.data, 2).values[0, MEAN]
    assert (mean[BUSY], mean[SECOND_BUSY]) == (60.0, 30.0)
    assert buffer.uuids == ("GPU-b",)


def test_a_row_of_three_hours_has_all_gpus_of_its_quarters() -> None:
    rollup, buffer, done = Rollup("id"), SampleBuffer(), list[SeriesRow]()
    for start in range(0, 10800 + 1, 300):
        done += roll_up([RollupTask(rollup, buffer, float(start))])
        load, uuid = (start / 300, "GPU-a") if start < 5400 else (50.0, "GPU-b")
        add_sample(buffer, float(start), load, uuid)
    (eighth,) = [one for one in done if one.grain_seconds == 10800]
    assert (eighth.start, eighth.uuids) == (0, ("GPU-b", "GPU-a"))
    read = unpack([0.0], eighth.data, 2)
    assert read.seconds.tolist() == [10800.0]
    values = read.values[0]
    assert (values[MEAN, BUSY], values[MEAN, SECOND_BUSY]) == pytest.approx((50.0, 8.5), rel=2e-3)
    assert (values[MIN, SECOND_BUSY], values[MAX, SECOND_BUSY]) == (0.0, 17.0)


def test_three_hours_that_a_node_left_early_are_finished_when_they_are_over() -> None:
    rollup, buffer = Rollup("id"), buffer_of((0.0, 40.0))
    roll_up([RollupTask(rollup, buffer, 900.0)])
    assert rollup.finish(10799.0) == []
    (eighth,) = rollup.finish(10800.0)
    assert unpack([0.0], eighth.data, 1).seconds.tolist() == [900.0]


def test_partial_rows_of_every_grain_change_nothing() -> None:
    rollup, buffer = Rollup("id"), buffer_of((0.0, 20.0), (900.0, 40.0))
    done = roll_up([RollupTask(rollup, buffer, 930.0)])
    so_far = rollup.partial_rows(buffer, 945.0)
    assert so_far == rollup.partial_rows(buffer, 945.0)
    assert [start for start, _ in load_by_grain(so_far, 10)] == [900, 910, 920, 930, 940]
    assert {grain: load_by_grain(so_far, grain)[0][0] for grain in (60, 900, 10800)} == {
        60: 900, 900: 900, 10800: 0,
    }  # fmt: skip
    assert Rollup("id", done, 930.0).partial_rows(buffer, 945.0) == so_far


def test_buffered_figures_are_found_by_their_time() -> None:
    buffer = buffer_of((5.0, 20.0), (25.0, 40.0))
    found = [Rollup("id").row_at(buffer, at) for at in (24.0, 25.0, 4.0)]
    assert [None if one is None else load_by_grain([one], 10) for one in found] == [
        [(20, [20.0] * 3)],
        [(20, [40.0] * 3)],
        None,
    ]
