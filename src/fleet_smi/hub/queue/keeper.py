"""The keeper of the queue: takes requests, plans them every second, makes offers, answers why.

In a cluster every hub takes requests and shows the queue; the leader makes the offers. Whatever
goes wrong with one round is logged, and the next one is tried: the queue never ends the hub.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from fleet_smi.errors import FleetError, NotFound, Unmet
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.hub.queue.past import QueuePast
from fleet_smi.hub.queue.planning import (
    Round,
    Situation,
    expect_behind,
    find_faulty,
    plan_round,
    require_possible,
)
from fleet_smi.hub.queue.request_pace import RequestPace
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.hub.queue.timers import QueueTimers
from fleet_smi.hub.queue.unused_offers import UnusedOffers
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.queue.entries import Band, QueueEntry, QueueRequest, edit
from fleet_smi.model.queue.estimate import UNKNOWN, Expected
from fleet_smi.model.queue.limits import QueueLimits
from fleet_smi.model.queue.offers import decline
from fleet_smi.model.queue.view import QueueRow, QueueView, offered_row, waiting_row
from fleet_smi.model.views import NodeParts

logger = logging.getLogger(__name__)
_TICK_SECONDS, _IDLE_SECONDS = 1.0, 2.0
_ESTIMATE_SECONDS = 20.0
_COST_FACTOR = 10.0  # a round of 0.3 s is followed by a pause of 3 s


class QueueKeeper:
    """The queue of one hub; lives on its event loop.

    `shared` says that other hubs change the same database, `is_leader` whether this one makes the
    offers now.
    """

    def __init__(
        self,
        hub: Hub,
        store: QueueStore,
        past: QueuePast,
        limits: QueueLimits,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        shared: bool = False,
    ) -> None:
        self._hub, self._store, self._past, self._limits = hub, store, past, limits
        self._is_leader, self._shared = is_leader, shared
        self.collect_parts: Callable[[], Awaitable[Sequence[NodeParts]]] = self._all_parts
        """Returns the fleet; set by the server, which has it in a cache."""
        self._entries: dict[str, QueueEntry] = {}
        self._is_loaded = self._is_planned = False
        self._timers = QueueTimers()
        self._unsaved_seen: dict[str, float] = {}
        self._lock = asyncio.Lock()
        self._pace = RequestPace()
        self._unused = UnusedOffers()
        self._changes = self._planned = 0
        self._round = Round([], [], [], [], {}, ())
        self._places: dict[str, tuple[int, int]] = {}
        """Where the decision on a request is among those of the round, and its place."""
        self._estimated_at = -_ESTIMATE_SECONDS
        self._failures = FailureLog(logger, "queue")

    async def run(self) -> None:
        """Plan again and again until cancelled."""
        while True:
            began = time.monotonic()
            try:
                async with self._lock:
                    await self._read()
                # Only while somebody waits: it has the sums of the current hour written.
                if self._entries:
                    await self._past.refresh(self._hub.clock())
                await self.plan()
            except FleetError as error:
                self._failures.record_failure(error)
            else:
                self._failures.record_success()
            cost = time.monotonic() - began
            pause = _TICK_SECONDS if self._entries else _IDLE_SECONDS
            await asyncio.sleep(max(pause, min(30.0, _COST_FACTOR * cost)))

    async def join(self, person: str, request: QueueRequest, *, via: str | None = None) -> QueueRow:
        """Add a request and plan at once; `via` is the node whose agent vouches for the person.

        Raise `UsageError` if no node could ever meet it, `Unmet` if too many wait already.
        """
        self._pace.require_calm(person, via)
        await self.ready()
        await self._require_possible(request)
        async with self._lock:
            # Under the lock: a round that makes an offer after this time has the request in it.
            now, add = self._hub.clock(), self._store.add
            entry = await asyncio.to_thread(add, person, request, now, self._limits, via)
            self._entries[entry.id] = entry
            self._timers.sync(self._entries.values(), now)
            self._changes += 1
        await self._plan_changes()
        return self.row(entry.id, person)

    async def ready(self) -> None:
        """Wait until the queue is read and planned for the first time."""
        if not self._is_planned:
            async with self._lock:
                # Others may have waited for the same round.
                if not self._is_planned:
                    await self._plan()

    async def hear(self, entry_id: str) -> None:
        """Note that a request is still wanted."""
        self._timers.hear(entry_id)
        if self._shared:
            self._unsaved_seen[entry_id] = self._hub.clock()

    async def cancel(self, entry_id: str) -> None:
        """Remove a request, and offer what it was offered to others."""
        async with self._lock:
            await asyncio.to_thread(self._store.remove, [entry_id])
            self._entries.pop(entry_id, None)
            self._unused.observe(self._entries.values())
            self._changes += 1
        await self._plan_changes()

    async def take(self, entry_id: str) -> None:
        """Note that an offer was taken up; its GPUs are not offered until they are seen in use."""
        # One whose offer was withdrawn meanwhile has ended too: its asker has what it wanted.
        await self._update(entry_id, lambda each: replace(each, taken_at=self._hub.clock()))

    async def decline(self, entry_id: str, *, unreachable: bool = False) -> None:
        """Note that an offer could not be taken up; on another node there may be one at once."""
        entry = self.entry(entry_id)
        self._pace.require_calm(entry.person, entry.via)
        await self._update(
            entry_id, lambda each: decline(each, self._hub.clock(), unreachable=unreachable)
        )

    async def change(
        self,
        entry_id: str,
        *,
        band: Band | None = None,
        note: str | None = None,
        max_hours: float | None = None,
    ) -> None:
        """Change what is not `None`."""
        entry = self.entry(entry_id)
        self._pace.require_calm(entry.person, entry.via)
        await self._update(entry_id, lambda each: edit(each, band, note, max_hours))

    def entry(self, entry_id: str) -> QueueEntry:
        """A request; raise `NotFound` if there is none of this id."""
        found = self._entries.get(entry_id)
        if found is None:
            raise NotFound("no such request is in the queue: it was met, cancelled, or given up")
        return found

    def row(self, entry_id: str, person: str | None) -> QueueRow:
        """One row of the queue; raise `NotFound` if there is none of this id.

        Raise `Unmet` if it has not been planned yet.
        """
        found = self._row(self.entry(entry_id), self._hub.clock(), person)
        if found is None:
            raise Unmet("this request has not been planned yet: try again")
        return found

    def view(self, person: str | None) -> QueueView:
        """The queue as it is now, for this person: offers first, then who waits, in order."""
        now, entries = self._hub.clock(), self._entries
        offered = [entry for entry in entries.values() if entry.offer is not None]
        waiting = [entry for each in self._places if (entry := entries.get(each)) is not None]
        ordered = [*offered, *[entry for entry in waiting if entry.offer is None]]
        rows = [self._row(entry, now, person) for entry in ordered]
        return QueueView(
            taken_at=now, rows=tuple([row for row in rows if row is not None]), person=person
        )

    def _row(self, entry: QueueEntry, now: float, person: str | None) -> QueueRow | None:
        own = person is not None and entry.person == person
        if entry.offer is not None:
            # By the timer, not by the clock, which may have been set since.
            until = now + self._timers.seconds_left(entry)
            shown = replace(entry, offer=replace(entry.offer, until=until))
            return replace(offered_row(shown, now), own=own)
        place = self._places.get(entry.id)
        if place is None:
            return None
        decision = replace(self._round.decisions[place[0]], entry=entry)
        expected = self._round.expected.get(entry.id, UNKNOWN)
        return replace(waiting_row(decision, place[1], expected), own=own)

    def offered_to(self) -> Mapping[str, QueueEntry]:
        """The requests that GPUs are offered to now, by the UUID of each GPU."""
        return {
            uuid: entry
            for entry in self._entries.values()
            if entry.offer is not None
            for uuid in entry.offer.uuids
        }

    def seconds_left(self, entry: QueueEntry) -> float:
        """How long an offer is still kept."""
        return self._timers.seconds_left(entry)

    async def expect(
        self, request: GpuRequest, nodes: Sequence[NodeParts], person: str | None
    ) -> Expected:
        """When a person's request that stands behind the whole queue can probably be met."""
        now = self._hub.clock()
        await self._past.refresh_jobs(now)
        own = [parts for parts in nodes if parts.node.site is None]
        past, thresholds = self._past, self._hub.fleet.thresholds
        situation = Situation(own, thresholds, past.use, past.jobs, now)
        wanted = QueueRequest(
            count=max(1, request.count),
            min_free_bytes=request.min_free_bytes,
            model=request.model,
            vendor=request.vendor,
        )
        entries = list(self._entries.values())
        return await run_in_query_thread(expect_behind, wanted, person, entries, situation)

    async def plan(self) -> None:
        """Plan now."""
        async with self._lock:
            self._planned = self._changes
            await self._plan()

    async def _plan_changes(self) -> None:
        """Plan what has changed; callers at the same time share one round."""
        changes = self._changes
        async with self._lock:
            if self._planned < changes:
                self._planned = self._changes
                await self._plan()

    async def _plan(self) -> None:
        await self._read()
        if not self._entries:
            self._set_round(Round([], [], [], [], {}, ()))
            return
        now = self._hub.clock()
        nodes = [parts for parts in await self.collect_parts() if parts.node.site is None]
        is_due = time.monotonic() - self._estimated_at >= _ESTIMATE_SECONDS
        waiting = [entry.id for entry in self._entries.values() if entry.offer is None]
        is_due = is_due or not self._round.expected.keys() >= set(waiting)
        past, thresholds = self._past, self._hub.fleet.thresholds
        late = self._unused.late_requests(self._entries.values())
        situation = Situation(nodes, thresholds, past.use, past.jobs, now, late)
        options = self._round.expected, self._timers.is_gone, self._timers.is_expired
        entries = list(self._entries.values())
        try:
            planned = await run_in_query_thread(
                plan_round, entries, situation, *options, with_estimates=is_due
            )
        except Exception as error:  # noqa: BLE001  # one request must not stop the others
            await self._remove_faulty(entries, situation, error)
            return
        if is_due:
            self._estimated_at = time.monotonic()
        if not self._is_leader():
            self._unused.forget_open()
        elif await self._write(planned):
            self._entries = {entry.id: entry for entry in planned.entries}
            self._timers.sync(self._entries.values(), now)
            self._unused.observe(self._entries.values(), planned.excused)
        self._set_round(planned)

    def _set_round(self, planned: Round) -> None:
        self._round, self._places, self._is_planned = planned, {}, True
        for number, decision in enumerate(planned.decisions):
            entry = self._entries.get(decision.entry.id)
            if entry is not None and entry.offer is None:
                self._places[entry.id] = number, len(self._places) + 1

    async def _remove_faulty(
        self, entries: Sequence[QueueEntry], situation: Situation, error: Exception
    ) -> None:
        """Remove the requests that cannot be planned; raise the error if it is none of them."""
        faulty = await run_in_query_thread(find_faulty, entries, situation)
        if not faulty:
            raise error
        logger.error("queue: requests %s are removed: %r", ", ".join(faulty), error)
        await asyncio.to_thread(self._store.remove, faulty)
        for each in faulty:
            self._entries.pop(each, None)

    async def _write(self, planned: Round) -> bool:
        """Save a round; `False` if another hub makes the offers now."""
        if planned.changed and not await asyncio.to_thread(
            self._store.update, planned.changed, fenced=True
        ):
            return False
        if planned.ended:
            await asyncio.to_thread(self._store.remove, planned.ended)
        return True

    async def _read(self) -> None:
        """Read the queue: once, or each time where other hubs change it too."""
        if self._is_loaded and not self._shared:
            return
        seen, self._unsaved_seen = self._unsaved_seen, {}
        if seen:
            await asyncio.to_thread(self._store.mark_seen, seen)
        found = await asyncio.to_thread(self._store.read_all)
        self._entries = {entry.id: entry for entry in found}
        self._is_loaded = True
        self._timers.sync(found, self._hub.clock())
        if self._is_leader():
            self._unused.observe(found)

    async def _update(self, entry_id: str, changed: Callable[[QueueEntry], QueueEntry]) -> None:
        """Change a request: under the lock, because a round that is being planned does so too."""
        async with self._lock:
            entry = changed(self.entry(entry_id))
            await asyncio.to_thread(self._store.update, [entry])
            self._entries[entry.id] = entry
            self._timers.sync(self._entries.values(), self._hub.clock())
            self._unused.observe(self._entries.values())
            self._changes += 1
        await self._plan_changes()

    async def _require_possible(self, request: QueueRequest) -> None:
        """Raise `UsageError` if no node could ever meet a request, silent ones included."""
        nodes = [parts for parts in await self.collect_parts() if parts.node.site is None]
        await run_in_query_thread(require_possible, request, nodes, self._hub.fleet.thresholds)

    async def _all_parts(self) -> Sequence[NodeParts]:
        return list(self._hub.shown.parts(self._hub.clock()))
