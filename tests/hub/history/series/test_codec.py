"""The series codec: packed rows decode to the same figures, and samples weigh by their time."""

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.series.codec import (
    MAX,
    MEAN,
    MIN,
    SeriesArrays,
    align_gpus,
    bin_samples,
    decode_rows,
    pack,
    resample,
    slice_row,
    slice_row_at,
    unpack,
)
from fleet_smi.hub.history.series.layout import (
    BUSY_INDEX,
    CURRENT_LAYOUT,
    FIRST_LAYOUT,
    GPU_COLUMNS,
    NODE_COLUMNS,
    FigureColumn,
    RowLayout,
    decode_layout,
    encode_layout,
    figure_count,
    gpu_offset,
)
from fleet_smi.model.units import GIB
from tests.hub.history.batches import pack_rows, series_row

FIGURE = st.just(nan) | st.floats(-100.0, 60_000.0, width=16)
FIGURES = st.lists(FIGURE, min_size=2, max_size=2)
SAMPLES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.0, 12.5, 40.0]), FIGURES),
    min_size=1,
    max_size=12,
)


class ExpectedGrain(NamedTuple):
    """A figure over a grain, computed sample by sample."""

    minimum: float
    mean: float
    maximum: float
    seconds: float


def expected_grain(
    samples: Sequence[tuple[float, float]], end: float, grain: tuple[float, float]
) -> ExpectedGrain:
    """The statistics of one figure over a grain; each sample holds until the next."""
    known = []
    for (at, value), after in zip(samples, [*[at for at, _ in samples[1:]], end], strict=True):
        held = min(after, grain[1]) - max(at, grain[0])
        if held > 0 and not isnan(value):
            known.append((value, held))
    if not known:
        return ExpectedGrain(nan, nan, nan, 0.0)
    seconds = sum(held for _, held in known)
    values = [value for value, _ in known]
    mean = sum(value * held for value, held in known) / seconds
    return ExpectedGrain(min(values), mean, max(values), seconds)


def rows(*values: Iterable[float], seconds: float = 10.0) -> SeriesArrays:
    """Rows whose minimum, mean and maximum are these values."""
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
            expected = expected_grain(column, end, (start, start + 10))
            found = made.values[number, :, place]
            assert found[MIN] == pytest.approx(expected.minimum, nan_ok=True)
            assert found[MEAN] == pytest.approx(expected.mean, rel=1e-4, abs=1e-2, nan_ok=True)
            assert found[MAX] == pytest.approx(expected.maximum, nan_ok=True)
            assert made.seconds[number] >= expected.seconds - 1e-6


@given(SAMPLES)
def test_resampling_gives_the_same_as_binning_to_the_coarse_grain(
    samples: list[tuple[float, list[float]]],
) -> None:
    times = np.cumsum([1003.0, *[after for after, _ in samples[1:]]])
    # A row stores one number of known seconds, so all figures must be known at the same times.
    figures = np.array([[values[0]] * 2 for _, values in samples], np.float32)
    end = float(times[-1]) + 5.0
    binned, joined = (
        bin_samples(times, figures, end, 60),
        resample(bin_samples(times, figures, end, 10), 60),
    )
    assert joined.starts.tolist() == binned.starts.tolist()
    assert joined.seconds == pytest.approx(binned.seconds)
    assert joined.values == pytest.approx(binned.values, rel=1e-4, abs=1e-2, nan_ok=True)


@given(
    st.lists(
        st.lists(FIGURE, min_size=figure_count(1), max_size=figure_count(1)), min_size=1, max_size=4
    )
)
def test_packed_rows_decode_to_the_same_figures(values: list[list[float]]) -> None:
    data = pack(rows(*values, seconds=9.5), 1)
    assert {len(packed) for packed in data} == {CURRENT_LAYOUT.packed_size(1)}
    back = unpack([10.0 * index for index in range(len(values))], b"".join(data), 1)
    assert back.seconds.tolist() == [9.5] * len(values)
    assert back.values == pytest.approx(rows(*values).values, rel=1e-3, nan_ok=True)


def test_a_value_that_its_encoding_cannot_hold_is_unknown() -> None:
    values = [1e6, *map(float, range(1, figure_count(1)))]
    back = unpack([0.0], pack(rows(values), 1)[0], 1)
    assert isnan(back.values[0, MEAN, 0])
    assert back.values[0, MEAN, 1:].tolist() == values[1:]


def test_memory_is_stored_in_bytes_to_one_part_in_ten_million() -> None:
    column = gpu_offset(0) + GPU_COLUMNS.index("memory_used_bytes")
    values = np.zeros(figure_count(1))
    values[column] = 79.123456 * GIB
    back = unpack([0.0], pack(rows(values), 1)[0], 1)
    assert back.values[0, MEAN, column] == pytest.approx(79.123456 * GIB, rel=1e-7)


def test_of_some_figures_only_the_mean_is_stored() -> None:
    encodings = {column.name: column.encoding for column in CURRENT_LAYOUT.gpu}
    assert encodings["encoder_percent"] == encodings["energy_joules_per_second"] == "mean"
    columns = [
        gpu_offset(0) + GPU_COLUMNS.index(name) for name in ("encoder_percent", "power_watts")
    ]
    arrays = rows(np.zeros(figure_count(1)))
    arrays.values[0, :, columns] = 10.0, 20.0, 60.0
    back = unpack([0.0], pack(arrays, 1)[0], 1)
    assert back.values[0, :, columns[0]].tolist() == [20.0, 20.0, 20.0]
    assert back.values[0, :, columns[1]].tolist() == [10.0, 20.0, 60.0]


def test_a_gpu_keeps_its_figures_at_another_position() -> None:
    count, values = len(GPU_COLUMNS), list(map(float, range(figure_count(2))))
    moved = align_gpus(rows(values), ("a", "b"), ("b", "c")).values[0, MEAN]
    node, second = values[: gpu_offset(0)], values[gpu_offset(1) :]
    assert moved[: gpu_offset(1)].tolist() == [*node, *second]
    assert np.isnan(moved[gpu_offset(1) :]).all()
    assert len(moved) == gpu_offset(1) + count


def packed_by(layout: RowLayout, values: dict[str, float], gpu_count: int = 1) -> bytes:
    """One row of another layout, packed value by value; figures of a GPU all have one value."""
    data = np.array([10.0], "<f4").tobytes()
    for encoding in ("f2", "f4"):
        names = [
            column.name for _, column in layout.columns(gpu_count) if column.encoding == encoding
        ]
        data += np.array([[values[name] for name in names]] * 3, f"<{encoding}").tobytes()
    return data


def test_rows_of_the_first_layout_are_read_with_memory_in_bytes() -> None:
    values = {
        "cpu_percent": 12.0, "memory_percent": 34.0, "busy_percent": 97.0, "power_watts": 300.0,
        "memory_used_gibibytes": 8.0, "temperature_celsius": 60.0, "sm_clock_mhz": 1980.0,
    }  # fmt: skip
    old = replace(
        series_row(20), uuids=("GPU-a",), data=packed_by(FIRST_LAYOUT, values), layout=FIRST_LAYOUT
    )
    (means,) = decode_rows([old], ("GPU-a",)).values[:, MEAN].tolist()
    figures = dict(zip((*NODE_COLUMNS, *GPU_COLUMNS), means, strict=True))
    expected = {**values, "memory_used_bytes": 8.0 * GIB}
    del expected["memory_used_gibibytes"]
    assert {name: figures[name] for name in expected} == expected
    assert all(isnan(value) for name, value in figures.items() if name not in expected)


def test_rows_with_fewer_and_with_other_figures_are_read_by_their_own_layout() -> None:
    fewer = RowLayout((FigureColumn("cpu_percent"),), (FigureColumn("busy_percent"),))
    other = RowLayout(
        (FigureColumn("gone_percent"), FigureColumn("cpu_percent", "f4")),
        (
            FigureColumn("lost_watts", "f4"),
            FigureColumn("power_watts"),
            FigureColumn("busy_percent"),
        ),
    )
    values = {"cpu_percent": 5.0, "busy_percent": 70.0, "gone_percent": 1.0, "lost_watts": 2.0}
    values["power_watts"] = 300.0
    uuids, power = ("GPU-a", "GPU-b"), GPU_COLUMNS.index("power_watts")
    stored = [
        replace(
            series_row(start),
            uuids=uuids,
            data=packed_by(layout, values, 2),
            layout=decode_layout(encode_layout(layout)),
        )
        for start, layout in ((0, fewer), (10, other))
    ]
    read = decode_rows([*stored, series_row(20, busy=9.0)], uuids)
    assert read.starts.tolist() == [0.0, 10.0, 20.0]
    assert read.values[:, MEAN, NODE_COLUMNS.index("cpu_percent")].tolist() == [5.0, 5.0, 9.0]
    for gpu in range(2):
        assert read.values[:, MEAN, gpu_offset(gpu) + BUSY_INDEX].tolist() == [70.0, 70.0, 9.0]
        means = read.values[:, MEAN, gpu_offset(gpu) + power]
        assert means == pytest.approx([nan, 300.0, 9.0], nan_ok=True)


def test_the_same_layout_in_the_database_is_the_same_object() -> None:
    for layout in (CURRENT_LAYOUT, FIRST_LAYOUT):
        assert decode_layout(encode_layout(layout)) is layout


def test_a_row_of_several_grains_can_be_sliced() -> None:
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
