"""The history: database size, query times and CPU cost per report."""

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from bench import synthetic_history
from bench.peers import BUILD
from bench.report import MeasurementSeries, Pair
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.checkpointing import Checkpointer, checkpoint_slots
from fleet_smi.hub.database import open_database
from fleet_smi.hub.history.queries.jobs import group_jobs
from fleet_smi.hub.history.queries.merge_live import StoredRowsAt, nodes_at
from fleet_smi.hub.history.queries.snapshot_at import build_fleet_at
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import build_strips
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage import migrations
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.units import GIB
from fleet_smi.simulation.large_fleet import large_fleet

MIN_DAYS = 7
NODES, LOADED_NODES, COLUMNS, POINTS = 125, 2000, 240, 1000
_WARM_SECONDS = 360  # until the rollups of the nodes are spread evenly over time
_WINDOW_SECONDS, _WINDOWS = 30, 5
_WINDOW_REPORTS = LOADED_NODES * _WINDOW_SECONDS
_REMEMBER_SECONDS = 5.0  # the hub's default
_SELDOM = (50_000, 20, 100)  # same thresholds as the hub
_HOUR, _DAY = 3600, 86400
_NODE, _USER = "id-7", "user07"
SIZE, COST = "the database", "history, CPU of one report"
SIZE_BUDGET, QUERY_BUDGET, COST_BUDGET = "10 GiB", "200 ms", "10 µs"
Query = Callable[[HistoryQueries], object]


@dataclass(frozen=True, kw_only=True)
class HistoryMeasurement:
    """All results; query times are warm, the cold ones are in the notes."""

    sizes: list[MeasurementSeries]
    query_times: list[MeasurementSeries]
    costs: list[MeasurementSeries]
    notes: str


SIZE_PAIRS = (Pair(ours=SIZE, theirs=SIZE_BUDGET, budget=1.0),)
COST_PAIRS = (Pair(ours=COST, theirs=COST_BUDGET, budget=1.0),)


def query_pairs(measured: HistoryMeasurement) -> list[Pair]:
    """Compare every query with its time budget."""
    labels = [one.label for one in measured.query_times if one.label != QUERY_BUDGET]
    return [Pair(ours=label, theirs=QUERY_BUDGET, budget=1.0) for label in labels]


def measure(days: int, rounds: int) -> HistoryMeasurement:
    """Generate a history of 1,000 GPUs once and measure queries on it."""
    path = BUILD / "history" / f"{NODES}-nodes-{days}-days-v{migrations.schema_version()}.db"
    build_note = "" if path.exists() else _built(path, days)
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    size = MeasurementSeries(label=SIZE, values=(float(path.stat().st_size),))
    answers, at_first = _answers(path, days, rounds)
    return HistoryMeasurement(
        sizes=[size, MeasurementSeries(label=SIZE_BUDGET, values=(10.0 * GIB,))],
        query_times=[*answers, MeasurementSeries(label=QUERY_BUDGET, values=(0.2,))],
        costs=[*_costs(), MeasurementSeries(label=COST_BUDGET, values=(10e-6,))],
        notes=f"{build_note}with nothing of the file in memory: {at_first}\n",
    )


def _built(path: Path, days: int) -> str:
    began, unfinished = time.monotonic(), path.with_suffix(".unfinished")
    for end in ("", "-wal", "-shm"):
        Path(f"{unfinished}{end}").unlink(missing_ok=True)
    synthetic_history.build_database(unfinished, NODES, days)
    shutil.move(unfinished, path)
    return f"made in {time.monotonic() - began:.0f} s\n"


def queries(days: int) -> dict[str, Query]:
    """Return the queries that pages and reports make, each over its widest range."""
    end = synthetic_history.END
    long_ago, last = end - days * _DAY // 2, min(days, 30)
    named: dict[str, Query] = {
        "the fleet at a moment": partial(_fleet, at=float(long_ago)),
        "strips, 1 hour": partial(_strips, start=end - _HOUR),
        "strips, 24 hours": partial(_strips, start=end - _DAY),
        "strips, 30 hours": partial(_strips, start=end - 30 * _HOUR + 1),
        "strips, 7 days": partial(_strips, start=end - 7 * _DAY),
        f"strips, {last} days": partial(_strips, start=end - last * _DAY),
        f"jobs of a user, {last} days": partial(_jobs, start=end - last * _DAY, user=_USER),
        "jobs of all, 24 hours": partial(_jobs, start=end - _DAY, user=None),
    }
    for span, seconds in (("1 hour", _HOUR), ("7 days", 7 * _DAY), (f"{days} days", days * _DAY)):
        start = end - seconds
        named[f"figures of a node, {span}"] = partial(_figures, start=start)
        named[f"ribbon, {span}"] = partial(_ribbon, start=start)
    for by in get_args(GroupBy):
        for daily in (False, True):
            label = f"usage by {by}, {days} days{', daily' if daily else ''}"
            # Not aligned to days, so that hourly rows are summed as well.
            start = end - days * _DAY + 5 * _HOUR
            named[label] = partial(_usages, start=start, by=by, daily=daily)
    return named


def _answers(path: Path, days: int, rounds: int) -> tuple[list[MeasurementSeries], str]:
    store = open_history(path)
    asking = HistoryQueries(store)
    found: list[MeasurementSeries] = []
    at_first: dict[str, float] = {}
    for label, question in queries(days).items():
        store.engine.dispose()
        _leave_memory(path)
        first, *others = [_seconds(partial(question, asking)) for _ in range(1 + rounds)]
        at_first[label] = first
        found.append(MeasurementSeries(label=label, values=tuple(others)))
    store.close()
    slowest = sorted(at_first, key=at_first.__getitem__)[-3:]
    return found, ", ".join(f"{label} {1000 * at_first[label]:.0f} ms" for label in slowest)


def _leave_memory(path: Path) -> None:
    """Drop the file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _fleet(asking: HistoryQueries, *, at: float) -> object:
    written = StoredRowsAt(
        nodes=asking.nodes(),
        presence=asking.presence_at(at),
        gpus=asking.gpus(),
        periods=asking.periods_at(at),
        series=asking.series_at(at),
    )
    return build_fleet_at(at, nodes_at(at, written, WriteBatch()))


def _strips(asking: HistoryQueries, *, start: float) -> object:
    places = {(gpu.node_id, gpu.uuid) for gpu in asking.gpus()}
    return build_strips(asking, places, start, synthetic_history.END, COLUMNS, WriteBatch())


def _jobs(asking: HistoryQueries, *, start: float, user: str | None) -> object:
    return group_jobs(asking.occupancies(start, synthetic_history.END, user=user))


def _figures(asking: HistoryQueries, *, start: float) -> object:
    return asking.series(_NODE, start, synthetic_history.END, POINTS)


def _ribbon(asking: HistoryQueries, *, start: float) -> object:
    return asking.ribbon(start, synthetic_history.END, COLUMNS)


def _usages(asking: HistoryQueries, *, start: float, by: GroupBy, daily: bool) -> object:
    return asking.usages(start, synthetic_history.END - 3 * _HOUR, by, daily=daily)


class _Timed(HistoryRecorder):
    """A node store that measures the time spent on saving."""

    spent = 0.0

    def schedule_save(self, node_ids: Collection[str]) -> int:
        """The same."""
        began = time.thread_time()
        number = super().schedule_save(node_ids)
        self.spent += time.thread_time() - began
        return number


def _costs() -> Iterator[MeasurementSeries]:
    """Measure the cost per report of 2,000 nodes with 8 GPUs at one report per second."""
    keep = RetentionPolicy(
        series_seconds={10: 6 * _HOUR, 60: 14 * _DAY}, ledger_seconds=_DAY, max_bytes=10 * GIB
    )
    with tempfile.TemporaryDirectory(prefix="fleet-smi-bench-") as folder:
        store, state = open_history(Path(folder) / "history.db"), open_database(Path(folder))
        writer = HistoryWriter(store, keep, clock=lambda: float(synthetic_history.END))
        memory = NodeStore(state, NodeCheckpoint)
        *windows, alone = _loaded(writer, memory)
        memory.close()
        writer.close()
        store.close()
        state.dispose()
    made = tuple(each[0] for each in windows)
    written = tuple(each[1] for each in windows)
    yield MeasurementSeries(label=COST, values=tuple(map(sum, windows)))
    yield MeasurementSeries(label="of that on the event loop", values=made)
    yield MeasurementSeries(label="of that who writes", values=written)
    yield MeasurementSeries(label="where no node is kept", values=(sum(alone),))


def _loaded(
    writer: HistoryWriter, memory: NodeStore[NodeCheckpoint]
) -> Iterator[tuple[float, float]]:
    """Return the CPU seconds per report of the recorder and of the writer thread.

    Nodes are kept as well, as a hub does that agents push to; but not in the last window.
    """
    story = large_fleet(
        LOADED_NODES, synthetic_history.GPUS, seed=1, start=float(synthetic_history.END)
    )
    fleet, clock, clock_seconds = FleetState(), time.thread_time, _clock_seconds()
    history, writes = _Timed(fleet, writer), _clock_of("history")
    keeping = Checkpointer(fleet, memory, history, checkpoint_slots(_REMEMBER_SECONDS))
    end = _WARM_SECONDS + _WINDOWS * _WINDOW_SECONDS
    for first in range(0, end, _WINDOW_SECONDS):
        made, history.spent, began = 0.0, 0.0, time.clock_gettime(writes)
        for second in range(first, first + _WINDOW_SECONDS):
            for node in range(LOADED_NODES):
                at = synthetic_history.END + second + node / LOADED_NODES
                change = fleet.apply(story.snapshot(node, at, second + 1), at)
                taken = time.perf_counter()
                if change is not None:
                    history.record(change)
                made += time.perf_counter() - taken - clock_seconds
            ticked = clock()
            history.tick(synthetic_history.END + second + 1.0)
            made += clock() - ticked
            if second < end - _WINDOW_SECONDS:
                keeping.mark_dirty(fleet.take_dirty())
                keeping.run_slot()
            while writer.pending_batches() or memory.durable_batch < memory.last_batch:
                time.sleep(0.01)
        written = time.clock_gettime(writes) - began
        if first >= _WARM_SECONDS:
            yield (made + history.spent) / _WINDOW_REPORTS, written / _WINDOW_REPORTS


def _clock_of(name: str) -> int:
    """Return the CPU clock of the thread with that name."""
    (found,) = [one.ident for one in threading.enumerate() if one.name == name]
    return time.pthread_getcpuclockid(found or 0)


def _clock_seconds() -> float:
    """Return the overhead of reading the CPU clock twice, which is as long as what is timed."""
    looks = [-(time.perf_counter() - time.perf_counter()) for _ in range(10_000)]
    return sum(looks) / len(looks)
