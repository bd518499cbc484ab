"""Checkpoint codec: older and unreadable checkpoints."""

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.history.recording.rows import Checkpoint
from fleet_smi.hub.history.series.layout import figure_count
from fleet_smi.hub.history.series.sample_format import (
    FIRST_COLUMNS,
    column_positions,
    sample_dtype,
    sample_format,
)
from tests.builders import NOON, gpu, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory, RecordedFleet, relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


def to_gpu_order(state: list[Any]) -> None:
    """Change a decoded checkpoint to one with all figures of one GPU after another."""
    samples = np.frombuffer(state[6], sample_dtype(figure_count(1))).copy()
    samples["figures"] = samples["figures"][:, sample_format(1).positions]
    state[6] = samples.tobytes()
    del state[11:]


def to_first_columns(state: list[Any]) -> None:
    """Change a decoded checkpoint to one from before samples named their columns."""
    to_gpu_order(state)
    positions = column_positions(FIRST_COLUMNS, 1)
    former = {new: old for old, new in positions.items()}
    samples = np.frombuffer(state[6], sample_dtype(figure_count(1)))
    old = np.empty(len(samples), sample_dtype(len(positions)))
    old["at"] = samples["at"]
    old["figures"] = samples["figures"][:, [positions[column] for column in sorted(positions)]]
    state[6] = old.tobytes()
    for use, *_ in state[7][2].values():
        use[4], use[5] = former[use[4]], former[use[5]]
    del state[10:]


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_checkpoint_of_an_older_version_is_resumed(version: int) -> None:
    story, undisturbed = ReportingNode(), ReportingNode()
    story.report_every_second(0, 30, busy_gpu(1))
    story.recorded.history.close()
    (checkpoint,) = story.stored.checkpoints()
    state = msgspec.msgpack.decode(checkpoint.data)
    if version == 4:
        to_gpu_order(state)
    else:
        to_first_columns(state)
    state[0] = version
    if version == 1:
        state[8] = [[FIRST_GPU], int(NOON), [], 0, [], 0, None, 0, None, []]
    story.stored.put_checkpoint(Checkpoint(node_id=NODE_ID, data=msgspec.msgpack.encode(state)))
    story.recorded = story.recorded.restart()
    story.report_every_second(30, 40, busy_gpu(1))
    story.tick(100)
    undisturbed.report_every_second(0, 40, busy_gpu(1))
    undisturbed.tick(100)
    (occupancy,), (expected,) = story.stored.occupancies(), undisturbed.stored.occupancies()
    assert relative_times([occupancy]) == [(0, 40)]
    assert asdict(occupancy.sums) == approx_sum(asdict(expected.sums))
    assert expected.sums.busy_seconds > 0
    assert expected.sums.energy_joules > 0


def test_an_unreadable_checkpoint_loses_only_open_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = InMemoryHistory()
    kept.put_checkpoint(Checkpoint(node_id=NODE_ID, data=b"not one"))
    watched = RecordedFleet(kept, FleetState())
    watched.take(snapshot(gpu()), NOON)
    assert "is unreadable" in caplog.text
