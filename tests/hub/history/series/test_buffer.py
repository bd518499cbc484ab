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
from tests.builders import gpu, snapshot
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
    for at, joules in enumerate(counters):
        report = snapshot(gpu(energy_joules=joules))
        buffer.set_gpus(device_uuids(report))
        buffer.add(float(at), report)
    rates = [buffer.sums(at, at + 1.0, [ENERGY])[ENERGY] for at in range(len(counters))]
    unknown = (0.0, 0)
    # Unknown at first, after a missing value, and after the counter was reset.
    assert rates == [unknown, (600.0, 1.0), unknown, unknown, (200.0, 1.0), unknown, (300.0, 1.0)]


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
