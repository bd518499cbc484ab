"""History query service: stored rows merged with live ones, for callers on the event loop.

Queries run on worker threads, a few at a time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import ceil, inf, isfinite
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from fleet_smi.hub.history.queries.backfill import backfill_points, missing_starts
from fleet_smi.hub.history.queries.current_usage import CurrentUsage, RemoteHistory
from fleet_smi.hub.history.queries.merge_live import (
    StoredRowsAt,
    filter_batch,
    merge_batches,
    merge_gpus,
    merge_nodes,
    merge_occupancies,
    merge_periods,
    nodes_at,
)
from fleet_smi.hub.history.queries.snapshot_at import build_fleet_at
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import StripRuns, build_strips
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import NodeRow, WriteBatch
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Ribbon,
    Series,
    Usages,
)
from fleet_smi.model.history_responses import GrainRetention, StorageStatus

_MAX_CONCURRENT_QUERIES = 2
_MAX_UNCACHED_NODES = 50
_NODES_PER_STEP = 8  # between which other tasks of the event loop run
_CACHE_COST_FACTOR = 20  # what took 10 ms to collect is cached for 200 ms
_BUFFERED_SECONDS = 600.0
"""Figures older than this are in finished rows."""
_MAX_AGE_SECONDS = 5.0
"""The maximum age of cached open intervals."""
_MIN_BACKFILL_SECONDS = 1800.0
"""Less than this may be missing from a ribbon: a restarted hub skips some minutes."""
_T = TypeVar("_T")
_Args = ParamSpec("_Args")


async def _yield_to_event_loop() -> None:
    await asyncio.sleep(0)


class HistoryService:
    """Queries over the history, live data included; times are those of the hub's clock."""

    def __init__(
        self,
        recorder: HistoryRecorder,
        store: HistoryStore,
        writer: HistoryWriter,
        retention: RetentionPolicy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recorder, self._clock = recorder, clock
        self._store, self._writer, self._retention = store, writer, retention
        self._queries = HistoryQueries(store)
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_QUERIES)
        self.current_usage = CurrentUsage(recorder, writer, clock, self.nodes)
        self._oldest = inf
        self._open_lock = asyncio.Lock()
        self._open_cache, self._open_valid_until = WriteBatch(), 0.0
        self._remote: RemoteHistory | None = None
        self.yield_to_reports: Callable[[], Awaitable[None]] = _yield_to_event_loop
        """Is awaited between parts of work on the event loop; set by the server."""

    def set_remote(self, remote: RemoteHistory) -> None:
        """Add what the other hubs of a cluster have in memory to all answers."""
        self._remote = self.current_usage.remote = remote

    async def nodes(self) -> list[NodeRow]:
        """Every node that ever reported."""
        unwritten = merge_batches(self._unwritten(), WriteBatch())
        return await self._run(lambda: merge_nodes(self._queries.nodes(), unwritten))

    async def gpus(self) -> list[GpuOfNode]:
        """Every GPU and instance that was ever reported."""
        unwritten = merge_batches(self._unwritten(), WriteBatch())
        return await self._run(lambda: merge_gpus(self._queries.gpus(), unwritten))

    async def fleet(self, at: float) -> FleetView:
        """The fleet at a past time."""
        live = await self._all_live()
        if at > self._clock() - _BUFFERED_SECONDS:
            # `live` is a new batch each time: the cached one is not changed.
            live.series += await self._rows_at(at)
        return await self._run(self._fleet, at, live)

    async def periods(
        self, gpus: Sequence[GpuOfNode], start: float, end: float
    ) -> list[GpuPeriods]:
        """The periods of these GPUs; one without data in that range is left out."""
        return await self._run(self._periods, gpus, start, end, await self._live_of(gpus))

    async def strips(
        self, gpus: Sequence[GpuOfNode], start: float, end: float, columns: int
    ) -> StripRuns:
        """The heat strips of these GPUs; one without data in that range is left out."""
        live = await self._live_of(gpus)
        return await self._run(self._strips, gpus, start, end, columns, live)

    async def occupancies(
        self, start: float, end: float, user: str | None = None
    ) -> list[GpuOccupancies]:
        """The processes on each GPU in a range, of one user or all."""
        return await self._run(self._occupancies, start, end, user, await self._all_live())

    async def durations(self, since: float, limit: int) -> list[tuple[str, float]]:
        """Who had a GPU for how many seconds, of what ended since a time; the latest last."""
        return await self._run(self._queries.durations, since, limit)

    async def series(self, node_id: str, start: float, end: float, max_points: int) -> Series:
        """The figures of a node at the finest grain that gives at most `max_points` points."""
        batches = self._unwritten()
        ended = [row for batch in batches for row in batch.series if row.node_id == node_id]
        live = [*ended, *self._recorder.partial_rows([node_id])]
        if self._remote is not None:
            live += await self._remote.series_rows([node_id], None)
        return await self._run(self._queries.series, node_id, start, end, max_points, live)

    async def usages(self, start: float, end: float, by: GroupBy, *, daily: bool) -> Usages:
        """The usage sums of a range, the current hour included."""
        await self.current_usage.write()
        unwritten = self.current_usage.unwritten_time()
        not_before = self._clock() - self._retention.ledger_seconds
        found = await self._run(
            self._queries.usages, start, end, by, daily=daily, not_before=not_before
        )
        if found.history_begins is not None:
            # Sums are stored by the hour, and the first one need not begin with its hour.
            oldest = await self._read_oldest()
            begins = max(found.history_begins, oldest if isfinite(oldest) else 0.0)
            found = replace(found, history_begins=begins)
        is_affected = unwritten is not None and unwritten.start < found.end
        return replace(found, unwritten=unwritten) if is_affected else found

    async def ribbon(self, start: float, end: float, max_columns: int) -> Ribbon:
        """The whole fleet over time, with gaps; missing columns are backfilled from the ledger."""
        ribbon = await self._run(self._queries.ribbon, start, end, max_columns)
        seconds = max(1, ceil((end - start) / max_columns))
        # Before the history began there is nothing to backfill from.
        missing = [
            at for at in missing_starts(ribbon.moments, start, end, seconds) if at >= self._oldest
        ]
        if len(missing) * seconds < _MIN_BACKFILL_SECONDS:
            return ribbon
        return await self._run(self._backfill, ribbon, missing, seconds, await self._all_live())

    async def oldest_after(self, at: float) -> float | None:
        """The start of the history where that is after a time; else `None`."""
        if at < self._oldest:
            self._oldest = await self._read_oldest()
        # Expired rows are deleted in steps: do not show what is only waiting for its deletion.
        now, oldest = self._clock(), self._oldest
        if isfinite(oldest):
            oldest = min(oldest, now)  # the clock may have been set back to before the first row
        oldest = max(oldest, now - self._retention.ledger_seconds)
        return oldest if at < oldest else None

    async def storage_status(self) -> StorageStatus:
        """How far back the history goes, its size, its retention and its gaps."""
        oldest = await self.oldest_after(-inf)
        gaps = await self._run(self._queries.gaps, 0.0, self._clock())
        lost = self._writer.current_gap
        return StorageStatus(
            oldest=oldest if oldest is not None and isfinite(oldest) else None,
            used_bytes=await self._run(self._store.size_bytes),
            most_bytes=self._retention.max_bytes,
            grains=tuple(
                GrainRetention(grain_seconds=grain, keep_seconds=seconds)
                for grain, seconds in self._retention.series_seconds.items()
            ),
            ledger_keep_seconds=self._retention.ledger_seconds,
            gaps=tuple(gaps if lost is None else [*gaps, lost]),
            trouble=self._writer.last_error,
        )

    async def _read_oldest(self) -> float:
        live = [interval.start for interval in (await self._all_live()).presence]
        stored = await self._run(self._queries.oldest_time)
        return min([*live, inf if stored is None else stored])

    async def _run(
        self, query: Callable[_Args, _T], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _T:
        async with self._slots:
            return await run_in_query_thread(query, *args, **kwargs)

    async def _all_live(self) -> WriteBatch:
        """All open intervals, and the rows that are not written yet."""
        # Open intervals first: one that ends in between is then in both, not in neither.
        open_batch = await self._all_open()
        return merge_batches(self._unwritten(), open_batch)

    async def _all_open(self) -> WriteBatch:
        """All open intervals, cached in proportion to the cost of collecting them."""
        async with self._open_lock:  # concurrent callers wait for one collection
            if time.monotonic() >= self._open_valid_until:
                ids, began = [node.node_id for node in await self.nodes()], time.thread_time()
                self._open_cache = await self._collect_open(ids, None)
                valid_seconds = _CACHE_COST_FACTOR * (time.thread_time() - began)
                self._open_valid_until = time.monotonic() + min(valid_seconds, _MAX_AGE_SECONDS)
            return self._open_cache

    async def _live_of(self, gpus: Iterable[GpuOfNode]) -> WriteBatch:
        """Open intervals of the nodes of these GPUs, and the rows that are not written yet."""
        ids = {gpu.node_id for gpu in gpus}
        # Of many nodes from the cache, with those of the others: collecting takes long enough to
        # delay reports.
        if len(ids) > _MAX_UNCACHED_NODES:
            open_batch = await self._all_open()
        else:
            open_batch = await self._collect_open(list(ids), list(ids))
        return merge_batches(self._unwritten(), open_batch)

    def _unwritten(self) -> list[WriteBatch]:
        """The batches that are not written yet.

        Read them before the database: a batch that is written in between is then seen twice,
        which merging handles, and not missed.
        """
        return [*self._writer.pending_batches(), self._recorder.pending_batch()]

    async def _collect_open(self, ids: Sequence[str], remote_ids: list[str] | None) -> WriteBatch:
        """Collect the open intervals of nodes; other tasks run in between.

        `remote_ids` are those to ask other hubs for, `None` for all.
        """
        collected = WriteBatch()
        if self._remote is not None:
            remote = await self._remote.open_intervals(remote_ids)
            collected.periods += remote.periods
            collected.occupancies += remote.occupancies
            collected.presence += remote.presence
        for first in range(0, len(ids), _NODES_PER_STEP):
            batch = self._recorder.open_batch(ids[first : first + _NODES_PER_STEP])
            collected.periods += batch.periods
            collected.occupancies += batch.occupancies
            collected.presence += batch.presence
            await self.yield_to_reports()
        return collected

    async def _rows_at(self, at: float) -> list[SeriesRow]:
        """The figures of all nodes at a time that are still buffered."""
        ids, rows = [node.node_id for node in await self.nodes()], list[SeriesRow]()
        for first in range(0, len(ids), _NODES_PER_STEP):
            rows += self._recorder.rows_at(ids[first : first + _NODES_PER_STEP], at)
            await self.yield_to_reports()
        if self._remote is not None:
            rows += await self._remote.series_rows(None, at)
        return rows

    def _fleet(self, at: float, live: WriteBatch) -> FleetView:
        queries = self._queries
        stored = StoredRowsAt(
            nodes=merge_nodes(queries.nodes(), live),
            presence=queries.presence_at(at),
            gpus=merge_gpus(queries.gpus(), live),
            periods=queries.periods_at(at),
            series=queries.series_at(at),
        )
        return build_fleet_at(at, nodes_at(at, stored, live))

    def _backfill(
        self, ribbon: Ribbon, missing: Sequence[float], seconds: float, live: WriteBatch
    ) -> Ribbon:
        first, last = missing[0], missing[-1] + seconds
        recent = filter_batch(first, last, live)
        gpus = merge_gpus(self._queries.gpus(), recent)
        stored = self._queries.periods(None, first, last)
        periods = merge_periods(stored, gpus, recent)
        # Live intervals last: of two with the same start the last wins.
        presence = [*self._queries.presence(first, last), *recent.presence]
        moments = [*ribbon.moments, *backfill_points(missing, seconds, periods, presence)]
        return replace(ribbon, moments=tuple(sorted(moments, key=lambda point: point.at)))

    # Live rows are filtered here, in the thread: the largest fleets have 100,000 of them.
    def _periods(
        self, gpus: Sequence[GpuOfNode], start: float, end: float, live: WriteBatch
    ) -> list[GpuPeriods]:
        stored = self._queries.periods(_gpu_keys(gpus), start, end)
        return merge_periods(stored, gpus, filter_batch(start, end, live))

    def _strips(
        self, gpus: Sequence[GpuOfNode], start: float, end: float, columns: int, live: WriteBatch
    ) -> StripRuns:
        recent = filter_batch(start, end, live)
        return build_strips(self._queries, _gpu_keys(gpus), start, end, columns, recent)

    def _occupancies(
        self, start: float, end: float, user: str | None, live: WriteBatch
    ) -> list[GpuOccupancies]:
        stored = self._queries.occupancies(start, end, user)
        gpus = merge_gpus(self._queries.gpus(), live)
        recent = filter_batch(start, end, live)
        of_user = [item for item in recent.occupancies if user in (None, item[1].holder.user)]
        return merge_occupancies(stored, gpus, replace(recent, occupancies=of_user))


def _gpu_keys(gpus: Iterable[GpuOfNode]) -> set[GpuKey]:
    return {(gpu.node_id, gpu.uuid) for gpu in gpus}
