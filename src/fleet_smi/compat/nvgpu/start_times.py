"""Start times of processes from nvgpu's `running_since`, which are words ("8 minutes ago"). Pure.

The words are about the oldest process of a GPU and get coarser with its age. A start time that
followed them would move with every response, and the history would see a new process each time:
so the first estimate stays until the words contradict it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fleet_smi.compat.nvgpu.humanize import parse_ago
from fleet_smi.model.snapshot import Process, Snapshot

StartTimes = Mapping[tuple[int, int], float]
"""Index of a GPU and pid -> when that process was started, by an earlier response."""


def with_start_time(
    processes: Sequence[Process],
    running_since: Any,
    index: int,
    taken_at: float,
    known: StartTimes,
) -> tuple[Process, ...]:
    """Give the oldest process its start time, if all processes are of one user.

    With several users nvgpu does not say whose process is the oldest.
    """
    age = parse_ago(running_since) if isinstance(running_since, str) else None
    if age is None or len({process.user for process in processes}) != 1:
        return tuple(processes)
    # Pids are given in ascending order, so the lowest is most likely the oldest.
    oldest = min(processes, key=lambda process: process.pid)
    started_at = known.get((index, oldest.pid))
    if started_at is None or not age.shortest <= taken_at - started_at <= age.longest:
        started_at = taken_at - age.seconds
    return tuple(
        replace(process, started_at=started_at) if process is oldest else process
        for process in processes
    )


def list_start_times(snapshot: Snapshot) -> StartTimes:
    """List the start times of a snapshot, for the next response of its machine."""
    return {
        (gpu.index, process.pid): process.started_at
        for gpu in snapshot.gpus
        for process in gpu.processes or ()
        if process.started_at is not None
    }
