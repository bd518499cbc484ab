"""The sample buffer: sums of figures over time, counters, and columns of older checkpoints."""

import numpy as np
import pytest

from fleet_smi.hub.history.series.buffer import (
    FIRST_COLUMNS,
    SampleBuffer,
    column_positions,
    convert_samples,
    device_uuids,
)
from fleet_smi.hub.history.series.layout import (
    BUSY_INDEX,
    GPU_COLUMNS,
    POWER_INDEX,
    figure_count,
    gpu_offset,
)
from tests.builders import gpu, instance, snapshot
from tests.hub.history.series.samples import buffer_of

BUSY, POWER = gpu_offset(0) + BUSY_INDEX, gpu_offset(0) + POWER_INDEX
ENERGY = gpu_offset(0) + GPU_COLUMNS.index("energy_joules_per_second")


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
        buffer.add(10.0 * step, report)
    rates = [buffer.sums(at, at + 10.0, [ENERGY])[ENERGY] for at in range(0, 70, 10)]
    unknown = (0.0, 0)
    # Unknown at first, after a missing value, and after the counter was reset.
    known = (600.0, 10.0), (200.0, 10.0), (300.0, 10.0)
    assert rates == [unknown, known[0], unknown, unknown, known[1], unknown, known[2]]


def test_a_counter_of_frequent_reports_is_compared_every_few_seconds() -> None:
    buffer = SampleBuffer()
    for at in range(12):
        report = snapshot(gpu(energy_joules=100.0 * at))
        buffer.set_gpus(device_uuids(report))
        buffer.add(float(at), report)
    assert buffer.sums(0.0, 12.0, [ENERGY]) == {ENERGY: (700.0, 7.0)}  # from the fifth second on


def test_counters_start_over_when_a_gpu_becomes_an_instance() -> None:
    buffer = SampleBuffer()
    two = snapshot(gpu(0, uuid="a", energy_joules=5.0), gpu(1, uuid="b", energy_joules=5.0))
    nested = snapshot(gpu(0, uuid="a", energy_joules=5.0, instances=(instance(uuid="b"),)))
    assert device_uuids(two) == device_uuids(nested)
    buffer.set_gpus(device_uuids(two))
    for at, report in ((0.0, two), (10.0, two), (11.0, nested), (20.0, nested)):
        buffer.add(at, report)
    assert buffer.sums(10.0, 11.0, [ENERGY]) == {ENERGY: (0.0, 1.0)}
    assert buffer.sums(11.0, 20.0, [ENERGY]) == {ENERGY: (0.0, 0)}
    assert buffer.sums(20.0, 21.0, [ENERGY]) == {ENERGY: (0.0, 1.0)}


def test_samples_of_an_older_checkpoint_are_converted_column_by_column() -> None:
    first = np.array([(7.0, [*range(12)])], np.dtype([("at", "f8"), ("figures", "f4", (12,))]))
    converted = convert_samples(first.tobytes(), FIRST_COLUMNS, 2)
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
        convert_samples(b"1234567", FIRST_COLUMNS, 1)
