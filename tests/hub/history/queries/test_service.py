"""Queries include batches that are not written yet."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.history.queries import current_usage
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.history import Usages
from fleet_smi.model.snapshot import Gpu
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.batches import KEEP_ALL
from tests.hub.history.in_memory_history import relative_times
from tests.machines import wait_until

BUSY, FREE = gpu(processes=(process(1),), busy_percent=95.0), gpu()


class Past:
    """A history on a disk that may be kept from being written to."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history.db"
        self._store = open_history(self._path)
        self._fleet = FleetState()
        self.writer = HistoryWriter(
            self._store, KEEP_ALL, retry_seconds=0.01, clock=lambda: NOON + 20
        )
        self.history = HistoryRecorder(self._fleet, self.writer)
        self.answers = HistoryService(
            self.history, self._store, self.writer, KEEP_ALL, clock=lambda: NOON + 20
        )
        self._sequence = 0

    def tell(self, card: Gpu, at: float) -> None:
        self._sequence += 1
        report = snapshot(
            card, sequence=self._sequence, run_id="run", taken_at=at, interval_seconds=10.0
        )
        change = self._fleet.apply(report, at)
        assert change is not None
        self.history.record(change)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another connection writes: the next writer must wait."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    def close(self) -> None:
        self.writer.close()
        self._store.close()


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    past = Past(tmp_path)
    yield past
    past.close()


async def query_usage(past: Past) -> None:
    answers, start, end = past.answers, NOON - 10, NOON + 100
    gpus = await answers.gpus()
    (row,) = await answers.periods(gpus, start, end)
    assert relative_times(row.periods) == [(0, 20), (20, None)]
    (theirs,) = await answers.occupancies(start, end)
    assert relative_times(theirs.occupancies) == [(0, 20)]
    (runs,) = (await answers.strips(gpus, start, end, 11)).values()
    assert [(run.start - NOON, run.end - NOON, run.state) for run in runs] == [
        (0, 20, "busy"), (20, 100, "free"),
    ]  # fmt: skip
    assert [run.busy_percent for run in runs] == [95.0, None]
    then = await answers.fleet(NOON + 5)
    (card,) = [card for node in then.nodes for card in node.gpus]
    assert (card.verdict.state, card.busy_percent) == ("busy", 95.0)
    figures = await answers.series(then.nodes[0].node_id, NOON, NOON + 20, 2)
    assert figures.gpus[card.uuid]["busy_percent"].mean == [95.0, 95.0]


def test_rows_are_found_before_they_are_queued(past: Past) -> None:
    past.tell(BUSY, NOON)
    past.tell(FREE, NOON + 20)
    asyncio.run(query_usage(past))


def test_rows_are_found_while_they_are_queued_and_written(past: Past) -> None:
    with past.locked():
        past.tell(BUSY, NOON)
        past.history.tick(NOON)
        past.tell(FREE, NOON + 20)
        past.history.tick(NOON + 20)
        asyncio.run(query_usage(past))
    asyncio.run(query_usage(past))


def test_concurrent_queries_see_the_sums_of_the_current_hour(past: Past) -> None:
    async def both() -> list[float]:
        queries = [past.answers.usages(NOON, NOON + 20, "user", daily=False) for _ in range(2)]
        return [found.total.gpu_seconds for found in await asyncio.gather(*queries)]

    past.tell(BUSY, NOON)
    past.tell(BUSY, NOON + 10)
    assert asyncio.run(both()) == [10.0, 10.0]


def test_usage_says_to_the_minute_when_the_history_begins(past: Past) -> None:
    begins = NOON - NOON % 3600 + 52 * 60  # sums are stored by the hour
    past.tell(BUSY, begins)
    past.tell(BUSY, begins + 10)
    past.history.tick(begins + 10)
    wait_until(lambda: not past.writer.pending_batches())
    found = asyncio.run(past.answers.usages(begins - 86400, begins + 10, "user", daily=False))
    assert (found.start, found.history_begins) == (begins - 52 * 60, begins)


def test_usage_says_since_when_its_figures_are_old(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current_usage, "_MAX_AGE_SECONDS", 0.0)
    monkeypatch.setattr(current_usage, "_WRITE_TIMEOUT_SECONDS", 0.2)

    def usages(end: float = NOON + 100) -> Usages:
        return asyncio.run(past.answers.usages(NOON - 10, end, "user", daily=False))

    past.tell(BUSY, NOON)
    past.tell(BUSY, NOON + 10)
    past.history.tick(NOON + 10)
    wait_until(lambda: not past.writer.pending_batches())
    with past.locked():
        past.tell(BUSY, NOON + 20)
        old = usages()
        assert old.unwritten is not None
        assert old.unwritten.end is None
        assert old.unwritten.why
    wait_until(lambda: not past.writer.pending_batches())
    found = usages()
    assert (found.unwritten, found.total.gpu_seconds) == (None, 20.0)


def test_the_history_never_begins_in_the_future(past: Past) -> None:
    past.tell(BUSY, NOON + 3600)  # before the clock was set back
    assert asyncio.run(past.answers.oldest_after(NOON)) == NOON + 20
