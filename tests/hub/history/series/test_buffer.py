"""The sample buffer: sums of figures over time, counters, and columns of older checkpoints."""

import numpy as np
import pytest

from fleet_smi.hub.history.series.buffer import SampleBuffer, device_uuids
from fleet_smi.hub.history.series.layout import (
    BUSY_INDEX,
    GPU_COLUMNS,
    POWER_INDEX,
    figure_count,
    gpu_offset,
)
from fleet_smi.hub.history.series.sample_format import (
    CURRENT_COLUMNS,
    FIRST_COLUMNS,
    LEADING_COLUMNS,
    column_positions,
    convert_samples,
)
from tests.builders import gpu, instance, snapshot
from tests.hub.history.series.samples import buffer_of

BUSY, POWER = gpu_offset(0) + BUSY_INDEX, gpu_offset(0) + POWER_INDEX
ENERGY, ENCODER, MEMORY_TEMPERATURE, THROTTLED = (
    gpu_offset(0) + GPU_COLUMNS.index(name)
    for name in (
        *("energy_joules_per_second", "encoder_percent"),
        *("memory_temperature_celsius", "throttled_percent"),
    )
)


def test_sums_count_only_seconds_with_a_known_figure() -> None:
    samples = buffer_of((0.0, None), (1.0, 40.0), (2.0, None), (3.0, 50.0))
    sums = samples.sums(0.0, 4.0, [BUSY, POWER])
    assert sums == {BUSY: (90.0, 2.0), POWER: (4 * 71.0, 4.0)}
    part = buffer_of((0.0, 10.0), (9.0, 100.0)).sums(5.0, 10.0, [BUSY])
    assert part == {BUSY: (4 * 10.0 + 100.0, 5.0)}


def test_a_counter_is_recorded_as_its_growth_per_second() -> None:
    buffer = SampleBuffer()
    # 3e9 J are more than a four-byte float can tell to the joule.
    counters = (3e9, 3e9 + 600.0, None, 3e9 + 1000.0, 3e9 + 1200.0, 50.0, 350.0)
    for step, joules in enumerate(counters):
        report = snapshot(gpu(energy_joules=joules))
        buffer.set_gpus(device_uuids(report))
        buffer.add(20.0 * step, report)
    rates = [buffer.sums(at, at + 20.0, [ENERGY])[ENERGY] for at in range(0, 140, 20)]
    unknown = (0.0, 0)
    # Unknown at first, after a missing value, and after the counter was reset.
    known = (600.0, 20.0), (200.0, 20.0), (300.0, 20.0)
    assert rates == [unknown, known[0], unknown, unknown, known[1], unknown, known[2]]


def test_means_and_counters_of_frequent_reports_are_read_every_15_seconds() -> None:
    buffer = SampleBuffer()
    for at in range(40):
        report = snapshot(gpu(energy_joules=100.0 * at, encoder_percent=float(at)))
        buffer.set_gpus(device_uuids(report))
        buffer.add(float(at), report)
    sums = buffer.sums(0.0, 40.0, [ENERGY, ENCODER])
    assert sums == {ENERGY: (2500.0, 25.0), ENCODER: (15 * (0.0 + 15.0) + 10 * 30.0, 40.0)}


def test_throttling_is_recorded_as_the_share_of_time_that_it_slowed_the_gpu_down() -> None:
    buffer = SampleBuffer()
    # A power cap alone is no slowdown: a card under full load runs at its limit.
    steps = ((), ("sw_power_cap",), ("sw_power_cap", "sw_thermal_slowdown"), None)
    for step, reasons in enumerate(steps):
        report = snapshot(gpu(throttle_reasons=reasons))
        buffer.set_gpus(device_uuids(report))
        buffer.add(20.0 * step, report)
    sums = [buffer.sums(at, at + 20.0, [THROTTLED])[THROTTLED] for at in range(0, 80, 20)]
    assert sums == [(0.0, 20.0), (0.0, 20.0), (2000.0, 20.0), (0.0, 0)]


@pytest.mark.parametrize("first", [None, 50.0])
def test_gauges_that_come_and_go_are_known_from_the_report_on_that_has_them(
    first: float | None,
) -> None:
    buffer = SampleBuffer()
    for at, (one, other) in enumerate([(first, first), (None, 60.0), (70.0, None), (None, None)]):
        cards = (
            gpu(0, uuid="a", memory_temperature_celsius=one, busy_percent=5.0),
            gpu(1, uuid="b", memory_temperature_celsius=other, busy_percent=6.0),
        )
        report = snapshot(*cards)
        buffer.set_gpus(device_uuids(report))
        for half in (0.0, 0.5):  # the second of two alike may take a faster path
            buffer.add(at + half, report)
    heat, second = MEMORY_TEMPERATURE, len(GPU_COLUMNS)
    known = (0.0, 0) if first is None else (first, 1.0)
    sums = [buffer.sums(at, at + 1.0, [heat, heat + second]) for at in range(4)]
    unknown = (0.0, 0)
    assert sums == [
        {heat: known, heat + second: known},
        {heat: unknown, heat + second: (60.0, 1.0)},
        {heat: (70.0, 1.0), heat + second: unknown},
        {heat: unknown, heat + second: unknown},
    ]
    assert buffer.sums(0.0, 4.0, [BUSY + second]) == {BUSY + second: (24.0, 4.0)}


def test_a_checkpoint_of_samples_is_restored_with_every_figure_in_its_place() -> None:
    cards = [gpu(index, uuid=f"GPU-{index}", busy_percent=10.0 + index) for index in range(3)]
    report = snapshot(*cards)
    buffer = SampleBuffer()
    buffer.set_gpus(device_uuids(report))
    buffer.add(0.0, report)
    restored = SampleBuffer(buffer.uuids, buffer.packed)
    columns = range(figure_count(3))
    assert restored.sums(0.0, 1.0, columns) == buffer.sums(0.0, 1.0, columns)
    assert convert_samples(buffer.packed, CURRENT_COLUMNS, LEADING_COLUMNS, 3) == buffer.packed


def test_counters_start_over_when_a_gpu_becomes_an_instance() -> None:
    buffer = SampleBuffer()
    two = snapshot(gpu(0, uuid="a", energy_joules=5.0), gpu(1, uuid="b", energy_joules=5.0))
    nested = snapshot(gpu(0, uuid="a", energy_joules=5.0, instances=(instance(uuid="b"),)))
    assert device_uuids(two) == device_uuids(nested)
    buffer.set_gpus(device_uuids(two))
    for at, report in ((0.0, two), (20.0, two), (21.0, nested), (40.0, nested)):
        buffer.add(at, report)
    assert buffer.sums(20.0, 21.0, [ENERGY]) == {ENERGY: (0.0, 1.0)}
    assert buffer.sums(21.0, 40.0, [ENERGY]) == {ENERGY: (0.0, 0)}
    assert buffer.sums(40.0, 41.0, [ENERGY]) == {ENERGY: (0.0, 1.0)}


def test_samples_of_an_older_checkpoint_are_converted_column_by_column() -> None:
    first = np.array([(7.0, [*range(12)])], np.dtype([("at", "f8"), ("figures", "f4", (12,))]))
    converted = convert_samples(first.tobytes(), FIRST_COLUMNS, (), 2)
    buffer = SampleBuffer(("GPU-a", "GPU-b"), converted)
    assert buffer.since == 7.0
    positions = column_positions(FIRST_COLUMNS, 2)
    assert (positions[2], positions[4]) == (BUSY, POWER)
    sums = buffer.sums(7.0, 8.0, range(figure_count(2)))
    known = {new: (float(old), 1.0) for old, new in positions.items()}
    assert len(known) == 12
    assert sums == {**dict.fromkeys(range(figure_count(2)), (0.0, 0)), **known}


def test_samples_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        convert_samples(b"1234567", FIRST_COLUMNS, (), 1)
    with pytest.raises(ValueError, match="size"):
        SampleBuffer(("GPU-a",), b"1234567")


def test_a_gpu_that_left_keeps_its_figures_since_the_last_rollup() -> None:
    buffer, busy = SampleBuffer(), gpu_offset(1) + BUSY_INDEX
    for at in range(60, 160):
        report = snapshot(gpu(0), *([gpu(1, busy_percent=50.0)] if at < 135 else []))
        buffer.set_gpus(device_uuids(report))
        buffer.add(float(at), report)
    buffer.take_until(120.0, 60)
    assert buffer.sums(120.0, 135.0, [busy]) == {busy: (750.0, 15.0)}
    buffer.take_until(140.0, 10)
    assert buffer.uuids == (gpu(0).uuid,)
