"""A fleet with three hours of history: users, an idle holder, and an outage of a node."""

import time
from typing import Any

import msgspec

from fleet_smi.model.history import Strips
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, gpu, process, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

HOURS = 3
COMMAND = "python train.py --large"
_STEPS = HOURS * 60
_OUTAGE = range(60, 90)
"""Minutes ago in which the second node did not report."""
_THROTTLED = range(30, 40)
"""Minutes ago in which a GPU of it was too hot."""


def report_history(hub: ThreadedHub) -> None:
    """Report the history of two nodes, and wait until it can be queried."""
    now = time.time()
    hub.report(
        *[_first(now, ago) for ago in range(_STEPS, -1, -1)],
        token=hub.join("id-of-gpu01", "gpu01"),
    )
    hub.report(
        *[_second(now, ago) for ago in range(_STEPS, -1, -1) if ago not in _OUTAGE],
        token=hub.join("id-of-gpu02", "gpu02"),
    )
    wait_until(lambda: _rows(hub) == 4)


def latest_snapshot() -> Snapshot:
    """Return a snapshot of the first node, taken now."""
    return _first(time.time(), 0)


def _rows(hub: ThreadedHub) -> int:
    response = hub.request("GET", "/api/v1/history/strips?since=3h&columns=60")
    if response.status != 200:
        return 0
    strips = msgspec.json.decode(response.body, type=Strips)
    return sum(bool(row.runs) for row in strips.rows)


def _first(now: float, ago: int) -> Snapshot:
    """Alice on both GPUs until an hour ago; then bob on one of them, idle."""
    if ago >= 60:
        gpus = tuple(_worked(index, _of("alice", now)) for index in (0, 1))
    else:
        gpus = (_held(0, _of("bob", now)), gpu(1, uuid="GPU-1-of-gpu01"))
    return _report(now, ago, *gpus, node="gpu01")


def _second(now: float, ago: int) -> Snapshot:
    """Carol on one GPU all the time; the other is free."""
    hot = ("sw_thermal_slowdown",) if ago in _THROTTLED else ()
    worked = _worked(0, _of("carol", now), uuid="GPU-0-of-gpu02", throttle_reasons=hot)
    return _report(now, ago, worked, gpu(1, uuid="GPU-1-of-gpu02"), node="gpu02")


def _report(now: float, ago: int, *gpus: Gpu, node: str) -> Snapshot:
    taken_at = now - ago * MINUTE
    return snapshot(*gpus, node=node, taken_at=taken_at, sequence=_STEPS - ago, interval_seconds=60)


def _worked(index: int, by: Process, **fields: Any) -> Gpu:
    figures = {"busy_percent": 90.0, "memory_used_bytes": 16 * GIB, "power_watts": 500.0}
    named = {"uuid": f"GPU-{index}-of-gpu01", "processes": (by,)}
    return gpu(index, **(figures | named | fields))


def _held(index: int, by: Process) -> Gpu:
    return _worked(index, by, busy_percent=0.0, power_watts=80.0)


def _of(user: str, now: float) -> Process:
    pid = {"alice": 11, "bob": 12, "carol": 13}[user]
    return process(pid, user, started_at=now - HOURS * HOUR, command=COMMAND)
