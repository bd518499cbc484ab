"""What is told of the past: what the database has, with what still goes on.

Lives on the event loop; the database is asked on other threads, a few questions at a time.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from math import ceil, inf, isfinite
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from fleet_smi.hub.history.queries.backfill import backfill_points, missing_starts
from fleet_smi.hub.history.queries.merge_live import (
    SavedSnapshot,
    filter_batch,
    merge_batches,
    merge_gpus,
    merge_nodes,
    merge_occupancies,
    merge_periods,
    nodes_at,
)
from fleet_smi.hub.history.queries.snapshot_at import fleet_at
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import StripRuns, build_strips
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import NodeRow, WriteBatch
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOccupancies, GpuOfNode, GpuPeriods, Ribbon, Series, Usages
from fleet_smi.model.history_responses import GrainRetention, StorageStatus

_AT_ONCE = 4
_NODES_A_TURN = 8
_LASTS_TIMES = 20
_PATIENCE_SECONDS, _GLANCE_SECONDS = 10.0, 0.005
_UNDONE_SECONDS = 600.0
"""After so long all figures are in rows."""
_SETTLED_SECONDS = 5.0
"""So old the sums of the hour that goes on may be."""
_WORTH_MAKING_UP_SECONDS = 1800.0
"""So much of a ribbon may be missing: a hub that was restarted left out some minutes."""
_T = TypeVar("_T")
_Given = ParamSpec("_Given")


class HistoryService:
    """Questions about the past, by the hub's clock."""

    def __init__(
        self,
        recorder: HistoryRecorder,
        store: HistoryStore,
        writer: HistoryWriter,
        retention: RetentionPolicy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._history, self._clock = recorder, clock
        self._store, self._writer, self._keep = store, writer, retention
        self._asking = HistoryQueries(store)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._settling = asyncio.Lock()
        self._settled_at = -_SETTLED_SECONDS
        self._oldest = inf
        self._finding = asyncio.Lock()
        self._found, self._found_until = WriteBatch(), 0.0

    async def nodes(self) -> list[NodeRow]:
        """Every node that was ever heard of."""
        unwritten = merge_batches(self._unwritten(), WriteBatch())
        return merge_nodes(await self._ask(self._asking.nodes), unwritten)

    async def gpus(self) -> list[GpuOfNode]:
        """Every GPU and instance that was ever heard of."""
        unwritten = merge_batches(self._unwritten(), WriteBatch())
        return merge_gpus(await self._ask(self._asking.gpus), unwritten)

    async def fleet(self, at: float) -> FleetView:
        """The fleet as it stood at a moment."""
        going_on = await self._going_on()
        if at > self._clock() - _UNDONE_SECONDS:
            going_on.series += await self._rows_at(at)
        return await self._ask(self._fleet, at, going_on)

    async def periods(
        self, gpus: Sequence[GpuOfNode], start: float, end: float
    ) -> list[GpuPeriods]:
        """How these GPUs stood; one that nobody heard of in that time is left out."""
        going_on = filter_batch(start, end, await self._opened_of(gpus))
        places = {(gpu.node_id, gpu.uuid) for gpu in gpus}
        return await self._ask(self._periods, gpus, places, start, end, going_on)

    async def strips(
        self, gpus: Sequence[GpuOfNode], start: float, end: float, columns: int
    ) -> StripRuns:
        """How these GPUs looked; one that nobody heard of in that time is left out."""
        going_on = filter_batch(start, end, await self._opened_of(gpus))
        places = {(gpu.node_id, gpu.uuid) for gpu in gpus}
        return await self._ask(build_strips, self._asking, places, start, end, columns, going_on)

    async def occupancies(
        self, start: float, end: float, user: str | None = None
    ) -> list[GpuOccupancies]:
        """The processes on each GPU in that time, of one user or all."""
        going_on = filter_batch(start, end, await self._going_on())
        return await self._ask(self._occupancies, start, end, user, going_on)

    async def series(self, node_id: str, start: float, end: float, max_points: int) -> Series:
        """The figures of a node, as fine as there are and not more than so many points."""
        ended = [row for each in self._unwritten() for row in each.series if row.node_id == node_id]
        going_on = [*ended, *self._history.partial_rows([node_id])]
        return await self._ask(self._asking.series, node_id, start, end, max_points, going_on)

    async def usages(self, start: float, end: float, by: GroupBy, *, daily: bool) -> Usages:
        """What everybody or everything comes to, this very hour included."""
        await self._settle()
        return await self._ask(self._asking.usages, start, end, by, daily=daily)

    async def ribbon(self, start: float, end: float, max_columns: int) -> Ribbon:
        """The whole fleet over time, and where nothing was kept."""
        ribbon = await self._ask(self._asking.ribbon, start, end, max_columns)
        seconds = max(1, ceil((end - start) / max_columns))
        unnoted = [
            at for at in missing_starts(ribbon.moments, start, end, seconds) if at >= self._oldest
        ]
        if len(unnoted) * seconds < _WORTH_MAKING_UP_SECONDS:
            return ribbon
        return await self._ask(self._made_up, ribbon, unnoted, seconds, await self._going_on())

    async def oldest_after(self, moment: float) -> float | None:
        """Since when there is anything, where that is after a moment; else `None`."""
        if moment < self._oldest:
            self._oldest = await self._first_heard()
        oldest = max(self._oldest, self._clock() - self._keep.ledger_seconds)
        return oldest if moment < oldest else None

    async def storage_status(self) -> StorageStatus:
        """How much of the past there is."""
        oldest = await self.oldest_after(-inf)
        gaps = await self._ask(self._asking.gaps, 0.0, self._clock())
        lost = self._writer.current_gap
        return StorageStatus(
            oldest=oldest if oldest is not None and isfinite(oldest) else None,
            used_bytes=await self._ask(self._store.size_bytes),
            most_bytes=self._keep.max_bytes,
            grains=tuple(
                GrainRetention(grain_seconds=grain, keep_seconds=seconds)
                for grain, seconds in self._keep.series_seconds.items()
            ),
            ledger_keep_seconds=self._keep.ledger_seconds,
            gaps=tuple(gaps if lost is None else [*gaps, lost]),
            trouble=self._writer.last_error,
        )

    async def _first_heard(self) -> float:
        begun = [one.start for one in (await self._going_on()).presence]
        written = await self._ask(self._asking.oldest_time)
        return min([*begun, inf if written is None else written])

    async def _ask(
        self, question: Callable[_Given, _T], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _T:
        async with self._turns:
            return await asyncio.to_thread(question, *args, **kwargs)

    async def _going_on(self) -> WriteBatch:
        """All that goes on, and what just ended."""
        opened = await self._all_opened()
        return merge_batches(self._unwritten(), opened)

    async def _all_opened(self) -> WriteBatch:
        """All that goes on, or did a moment ago: as long as that was dear to find out."""
        async with self._finding:
            if time.monotonic() >= self._found_until:
                ids, began = [node.node_id for node in await self.nodes()], time.thread_time()
                self._found = await self._opened(ids)
                lasts_seconds = _LASTS_TIMES * (time.thread_time() - began)
                self._found_until = time.monotonic() + min(lasts_seconds, _SETTLED_SECONDS)
            return self._found

    async def _opened_of(self, gpus: Iterable[GpuOfNode]) -> WriteBatch:
        """What goes on of these GPUs, and of others on their nodes, with what just ended."""
        opened = await self._opened(list({gpu.node_id for gpu in gpus}))
        return merge_batches(self._unwritten(), opened)

    def _unwritten(self) -> list[WriteBatch]:
        """What has ended and is on its way to the disk: to be found before the disk is asked."""
        return [*self._writer.pending_batches(), self._history.pending_batch()]

    async def _opened(self, ids: Sequence[str]) -> WriteBatch:
        """What goes on of some nodes; others on the event loop have their turns."""
        together = WriteBatch()
        for first in range(0, len(ids), _NODES_A_TURN):
            part = self._history.open_batch(ids[first : first + _NODES_A_TURN])
            together.periods += part.periods
            together.occupancies += part.occupancies
            together.presence += part.presence
            together.usage += part.usage
            await asyncio.sleep(0)
        return together

    async def _rows_at(self, at: float) -> list[SeriesRow]:
        """The figures of all nodes, of which no rows are done yet."""
        ids, rows = [node.node_id for node in await self.nodes()], list[SeriesRow]()
        for first in range(0, len(ids), _NODES_A_TURN):
            rows += self._history.rows_at(ids[first : first + _NODES_A_TURN], at)
            await asyncio.sleep(0)
        return rows

    async def _settle(self) -> None:
        """Have the sums of the hour that goes on written down, unless that was just done."""
        async with self._settling:  # whoever asks meanwhile must not be told less
            now = time.monotonic()
            if now - self._settled_at < _SETTLED_SECONDS:
                return
            opened = await self._all_opened()
            usage = [*self._history.pending_batch().usage, *opened.usage]
            number = self._writer.put(WriteBatch(usage=usage))
            while not self._writer.is_done(number) and time.monotonic() - now < _PATIENCE_SECONDS:
                await asyncio.sleep(_GLANCE_SECONDS)
            self._settled_at = now

    def _fleet(self, at: float, going_on: WriteBatch) -> FleetView:
        asking = self._asking
        written = SavedSnapshot(
            nodes=merge_nodes(asking.nodes(), going_on),
            presence=asking.presence_at(at),
            gpus=merge_gpus(asking.gpus(), going_on),
            periods=asking.periods_at(at),
            series=asking.series_at(at),
        )
        return fleet_at(at, nodes_at(at, written, going_on))

    def _made_up(
        self, ribbon: Ribbon, unnoted: Sequence[float], seconds: float, going_on: WriteBatch
    ) -> Ribbon:
        first, last = unnoted[0], unnoted[-1] + seconds
        recent = filter_batch(first, last, going_on)
        gpus = merge_gpus(self._asking.gpus(), recent)
        ended = self._asking.periods(None, first, last)
        found = merge_periods(ended, gpus, recent)
        presence = [*self._asking.presence(first, last), *recent.presence]
        moments = [*ribbon.moments, *backfill_points(unnoted, seconds, found, presence)]
        return replace(ribbon, moments=tuple(sorted(moments, key=lambda moment: moment.at)))

    def _periods(
        self,
        gpus: Iterable[GpuOfNode],
        places: Collection[GpuKey],
        start: float,
        end: float,
        going_on: WriteBatch,
    ) -> list[GpuPeriods]:
        ended = self._asking.periods(places, start, end)
        return merge_periods(ended, gpus, going_on)

    def _occupancies(
        self, start: float, end: float, user: str | None, going_on: WriteBatch
    ) -> list[GpuOccupancies]:
        ended = self._asking.occupancies(start, end, user)
        gpus = merge_gpus(self._asking.gpus(), going_on)
        theirs = [one for one in going_on.occupancies if user in (None, one[1].holder.user)]
        return merge_occupancies(ended, gpus, WriteBatch(occupancies=theirs))
