"""Two hours of history of two nodes, reported to a real hub."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from fleet_smi.client.connection import Response
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import GIB, MIB
from tests.builders import HOUR, MINUTE, gpu, process, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

COMMAND = "python train.py --data /home/bob/private"
STEP = MINUTE


def report_history(hub: ThreadedHub) -> float:
    """Report: bob on a GPU of gpu01 from 90 to 30 minutes ago; gpu02 silent for an hour.

    Return the current time.
    """
    now = time.time()
    for name, shots in (("gpu01", _gpu01(now)), ("gpu02", _gpu02(now))):
        token = hub.join(f"id-of-{name}", name)
        response = hub.report(*shots, token=token, sent_at=now)
        assert response.status == 200, response
    wait_until(lambda: len(get_json(hub, "history/occupancies?user=bob")["rows"]) == 1)
    wait_until(lambda: _has_fallen_silent(hub, "gpu02"))
    return now


def _has_fallen_silent(hub: ThreadedHub, node: str) -> bool:
    rows = get_json(hub, f"history/periods?node={node}")["rows"]
    return bool(rows) and rows[0]["periods"][-1]["end"] is not None


def get_json(hub: ThreadedHub, path: str, **options: Any) -> Any:
    """Return the decoded body of a successful GET below /api/v1."""
    response = hub.request("GET", f"/api/v1/{path}", **options)
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def error_message(response: Response) -> str:
    """Return the message of an error response."""
    message: str = msgspec.json.decode(response.body)["error"]["message"]
    return message


def _gpu01(now: float) -> Iterator[Snapshot]:
    for sequence, minutes in enumerate(range(120, -1, -1)):
        seconds = minutes * MINUTE
        first = _taken(now) if 0.5 * HOUR < seconds <= 1.5 * HOUR else gpu(0)
        yield _shot("gpu01", now - seconds, sequence, first, gpu(1))


def _gpu02(now: float) -> Iterator[Snapshot]:
    for sequence, minutes in enumerate(range(120, 59, -1)):
        yield _shot("gpu02", now - minutes * MINUTE, sequence, gpu(0, uuid="GPU-of-2"))


def _shot(name: str, at: float, sequence: int, *gpus: Gpu) -> Snapshot:
    pace = {"interval_seconds": STEP, "run_id": "run-1"}
    return snapshot(*gpus, node=name, taken_at=at, sequence=sequence, **pace)


def _taken(now: float) -> Gpu:
    bob = process(7, "bob", command=COMMAND, started_at=now - 1.5 * HOUR)
    used = 17 * GIB + 4 * MIB
    return gpu(0, processes=(bob,), memory_used_bytes=used, busy_percent=80.0, power_watts=500.0)
