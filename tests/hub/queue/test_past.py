"""What a hub says of the future, from the past that it has recorded."""

import time
from pathlib import Path
from typing import Any

import msgspec

from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.routes.test_queue import PROXIED, join, rows
from tests.server.threaded_hub import ThreadedHub

JOB_SECONDS = 1800.0


def free(hub: ThreadedHub) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(
        hub.request("GET", "/api/v1/free?n=1", X_User="eve").body
    )
    return found


def test_a_hub_says_when_a_gpu_is_usually_free_from_the_jobs_that_it_has_seen(
    tmp_path: Path,
) -> None:
    now = time.time()
    jobs = 12
    began = now - jobs * 2 * JOB_SECONDS - 300
    snapshots: list[Snapshot] = []
    for number in range(jobs):
        start = began + number * 2 * JOB_SECONDS
        runs = process(100 + number, "alice", started_at=start)
        for at, processes in ((start, (runs,)), (start + JOB_SECONDS, ())):
            card = gpu(0, processes=processes, busy_percent=90.0 if processes else 0.0)
            snapshots.append(snapshot_now("gpu01", card, taken_at=at, sequence=len(snapshots)))
    busy = gpu(0, processes=(process(999, "alice", started_at=now - 600),), busy_percent=90.0)
    last = snapshot_now("gpu01", busy, taken_at=now, sequence=len(snapshots))
    with ThreadedHub(tmp_path / "hub", **PROXIED) as hub:
        hub.join_and_report(*snapshots, last)

        def is_known() -> bool:
            # The writer needs a moment; what was read before is not read again for minutes.
            hub.server.queue._past._jobs_until = 0.0
            return free(hub)["expected"]["by"] is not None

        wait_until(is_known)
        found = free(hub)
        expected = found["expected"]
        assert (found["unmet"] or "").startswith("no GPU is free")
        assert now + 900 <= expected["by"] <= now + 1800
        assert expected["of_ten"] == 8
        assert expected["not_before"] >= now + 600

        # Who has used less goes first, although they asked later.
        join(hub, "alice")
        join(hub, "bob")
        wait_until(lambda: [row["person"] for row in rows(hub)] == ["bob", "alice"])
        assert rows(hub)[1]["why"].startswith("behind bob: fewer GPU-hours this week (0 to ")
        assert rows(hub)[0]["expected"]["of_ten"] == 8
