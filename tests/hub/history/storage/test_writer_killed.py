"""A hub killed at any time: written batches are there, and none is partial."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import open_history

_CHILD = """
import sys
import time
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import KEEP_ALL, numbered_batch

writer = HistoryWriter(open_history(sys.argv[1]), KEEP_ALL)
printed = 0
for number in range(1, 1_000_000):
    queued = writer.put(numbered_batch(number))
    while queued - writer.last_written > 8:
        time.sleep(0.001)
    if writer.last_written > printed:
        printed = writer.last_written
        print(printed, flush=True)
"""
_TABLES = ("periods", "occupancies", "presence", "series", "moments")


@pytest.mark.parametrize("seed", range(2))
def test_written_batches_survive_a_kill_and_none_is_partial(where: str, seed: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, where], stdout=subprocess.PIPE, cwd=Path.cwd(), text=True
    )
    assert child.stdout is not None
    with child.stdout:
        reported = int(child.stdout.readline())
        time.sleep(random.Random(seed).uniform(0.0, 0.3))  # any moment
        child.kill()
        reported = max([reported, *(int(line) for line in child.stdout if line.endswith("\n"))])
    assert child.wait() == -signal.SIGKILL
    store = open_history(where)
    with store.read_transaction() as connection:
        tables = [schema.metadata.tables[name] for name in _TABLES]
        counts = {
            connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables
        }
        checkpoint = connection.execute(schema.checkpoints.select()).one().data
        hour = connection.execute(schema.usage_hours.select()).one().gpu_seconds
        day = connection.execute(schema.gpu_days.select()).one().gpu_seconds
    (count,) = counts
    assert count >= reported
    assert (int(checkpoint), hour / 10, round(day / 10)) == (count, count, count)
    assert store.damage_message is None
    store.close()
