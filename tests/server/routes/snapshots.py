"""Snapshots taken now, of nodes with a long interval, for tests of the routes."""

import time
from typing import Any

from fleet_smi.model.snapshot import Gpu, Snapshot
from tests.builders import snapshot


def snapshot_now(name: str, *gpus: Gpu, **fields: Any) -> Snapshot:
    """A snapshot taken now, with an interval so long that the node does not become silent."""
    known: dict[str, Any] = {"taken_at": time.time(), "interval_seconds": 3600.0, "run_id": "run-1"}
    return snapshot(*gpus, node=name, **(known | fields))
