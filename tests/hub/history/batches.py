"""Small write batches about a node with two GPUs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleet_smi.hub.history.recording.rows import Checkpoint, NodeRow, Presence, UsageRow, WriteBatch
from fleet_smi.hub.history.series.codec import SeriesArrays, pack
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, figure_count
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.model.history import GpuOfNode, Holder, Occupancy, Period, RibbonPoint, Sums
from fleet_smi.model.units import GIB

DAY = 1_790_000_000 // 86400 * 86400
"""Midnight of a day, in UTC."""
HOUR = 3600
UUIDS = ("GPU-a", "GPU-b")
KEEP_ALL = RetentionPolicy(
    series_seconds={10: 1e12, 60: 1e12, 900: 1e12}, ledger_seconds=1e12, max_bytes=1000 * GIB
)


def node(number: int = 1, **changed: Any) -> NodeRow:
    values = {"name": f"gpu{number}", "labels": {"rack": "a"}} | changed
    return NodeRow(node_id=f"id-{number}", **values)


def gpu(number: int = 1, index: int = 0, **changed: Any) -> GpuOfNode:
    values: dict[str, Any] = {"model": "H100", "memory_total_bytes": 80 * GIB} | changed
    return GpuOfNode(
        uuid=UUIDS[index], node_id=f"id-{number}", node=f"gpu{number}", index=index, **values
    )


def place(number: int = 1, index: int = 0) -> GpuKey:
    return f"id-{number}", UUIDS[index]


def holder(user: str = "alice", pid: int = 100, **changed: Any) -> Holder:
    values = {"group": "vision", "name": "python", "command": "python train.py"} | changed
    return Holder(pid=pid, user=user, **values)


def period(start: float, end: float, *holders: Holder, **changed: Any) -> Period:
    values = {"state": "busy" if holders else "free", "reason": "so it stood"} | changed
    return Period(start=start, end=end, holders=holders, **values)


def occupancy(start: float, end: float, of: Holder | None = None, **changed: Any) -> Occupancy:
    return Occupancy(holder=of or holder(), start=start, end=end, **changed)


def sums(seconds: float) -> Sums:
    return Sums(
        gpu_seconds=seconds,
        measured_seconds=seconds,
        busy_seconds=seconds / 2,
        idle_seconds=seconds / 4,
        energy_joules=seconds * 300,
    )


def usage(hour: int, seconds: float, user: str = "alice", **changed: Any) -> UsageRow:
    values = {"gpu_key": place(), "group": "vision", "state": "busy"} | changed
    return UsageRow(hour=hour, user=user, sums=sums(seconds), **values)


def series_row(start: int, *, grain: int = 10, number: int = 1, busy: float = 50.0) -> SeriesRow:
    """A row of both GPUs in which every figure is `busy`."""
    data = pack_rows((busy,) * figure_count(len(UUIDS)), seconds=float(grain))
    return SeriesRow(
        grain_seconds=grain, node_id=f"id-{number}", start=start, uuids=UUIDS, data=data
    )


def pack_rows(*rows: Sequence[float], seconds: float = 10.0) -> bytes:
    """Pack rows, each with the same values as minimum, mean and maximum."""
    values = np.array([[row] * 3 for row in rows], np.float32)
    gpu_count = (values.shape[2] - figure_count(0)) // len(GPU_COLUMNS)
    every = np.full(len(rows), seconds)
    return b"".join(pack(SeriesArrays(np.zeros(len(rows)), every, values), gpu_count))


def numbered_batch(number: int) -> WriteBatch:
    """A batch whose rows differ from those of other numbers in every table."""
    at = float(DAY + 10 * number)
    return WriteBatch(
        nodes=[node()],
        gpus=[gpu()],
        periods=[(place(), period(at, at + 10, holder()))],
        occupancies=[(place(), occupancy(at, at + 10))],
        presence=[Presence(node_id="id-1", start=at, end=at + 10)],
        series=[series_row(int(at))],
        usage=[usage(DAY, 10.0 * number)],
        moments=[RibbonPoint(at=at, nodes=1, nodes_reporting=1, gpus={"busy": 1.0})],
        checkpoints=[Checkpoint(node_id="id-1", data=str(number).encode())],
    )
