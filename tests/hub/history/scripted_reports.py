"""Generated report sequences of one node with two GPUs."""

from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec import Struct

from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON, gpu, process, snapshot

INTERVAL_SECONDS, SILENCE_SECONDS = 1.0, 3.0
UUIDS = ("GPU-00000000", "GPU-00000001")
START = NOON // 3600 * 3600 + 3600 - 30  # so that an hour ends soon


class ScriptedReport(Struct, frozen=True):
    """One report: how long after the one before, and who is on each GPU with what figures."""

    delay_seconds: float
    pids: tuple[tuple[int, ...], ...]
    busy: tuple[float | None, ...]
    watts: tuple[float | None, ...]


# Faster than the interval, on time, at and beyond the silence limit, and over an hour's end.
DELAYS = st.sampled_from([0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0, 45.0, 5000.0])
PIDS = st.sampled_from([(), (), (1,), (1, 2), (1, 3), (2,), (2, 4)])
USERS = {1: "alice", 2: "bob", 3: "alice", 4: "carol"}
PERCENT = st.sampled_from([None, 0.0, 12.5, 100.0])
WATTS = st.sampled_from([None, 70.0, 400.0])


def pairs(of: Any) -> Any:
    return st.tuples(of, of)


REPORTS = st.lists(
    st.builds(
        ScriptedReport,
        delay_seconds=DELAYS,
        pids=pairs(PIDS),
        busy=pairs(PERCENT),
        watts=pairs(WATTS),
    ),
    min_size=1,
    max_size=30,
)


def to_snapshot(report: ScriptedReport, number: int) -> Snapshot:
    gpus = [
        gpu(
            index,
            busy_percent=report.busy[index],
            power_watts=report.watts[index],
            processes=tuple(process(pid, user=USERS[pid]) for pid in report.pids[index]),
        )
        for index in range(len(UUIDS))
    ]
    return snapshot(*gpus, sequence=number, run_id="run", taken_at=START + number)


def approx_sum(expected: Any) -> Any:
    """Equal but for the rounding of sums."""
    return pytest.approx(expected, rel=1e-6, abs=1e-5)
