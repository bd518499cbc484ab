"""The book of one node: its reports go in, and what they come to goes into a batch.

A report holds until the next, at most until the node counts as silent: then only for as long
as it was to hold. Time that has been counted is never counted again.
"""

from collections.abc import Collection, Iterable
from math import inf
from zlib import crc32

import msgspec
from msgspec import Struct

from fleet_smi.hub.fleet import Change
from fleet_smi.hub.history.gathering import Gathering, uuids_in
from fleet_smi.hub.history.grains import GRAINS
from fleet_smi.hub.history.holders import missing_parts, parts_of
from fleet_smi.hub.history.ledger import Ledger, Saved
from fleet_smi.hub.history.rollup import Rollup, Task, roll_up, whole_of
from fleet_smi.hub.history.rows import Batch, Checkpoint, SeriesRow
from fleet_smi.hub.history.seen import Seen
from fleet_smi.hub.history.usage import HOUR_SECONDS, hour_of
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.thresholds import Thresholds

_MINUTE = GRAINS[1]
_VERSION = 3
_VERSIONS = (1, 2, _VERSION)
# A clock that is set back by less is waited for: that time has been counted.
_SET_BACK_SECONDS = 3600.0
# So many lives of an agent are told apart.
_MOST_RUNS = 4
_UNTOLD_PACE_SECONDS = 300.0
_MOST_MINUTES = 5
_PATIENCE_SECONDS = 30.0
_EVERY_32_BITS = 1 << 32
_NOTHING = msgspec.msgpack.encode(None)


class Page(Struct, kw_only=True, array_like=True):
    """All of a book that is open, as it is written down, but for rows that are kept anyway."""

    version: int
    last: float
    reached: float
    pace: float | None
    silent: bool
    uuids: tuple[str, ...]
    gathered: bytes
    ledger: Saved
    unused: msgspec.Raw = msgspec.Raw(_NOTHING)
    runs: dict[str | None, int] = {}


_encode, _decoder = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Page)


class Book:
    """Of one node.

    `last` is when the latest report was taken; up to `_reached` all is counted in the ledger.
    A report like the one before is only gathered, until `_until`; any other is a turn. Since
    `_due` what was gathered waits to be made rows. `states` has one for each GPU, and none
    while the node is silent. `_reported` are the GPUs in the latest report. `_runs` has the
    number of the latest of each run before this one: what has a lower one is sent again.
    """

    __slots__ = (
        "_due",
        "_gathering",
        "_holds",
        "_limit",
        "_pace",
        "_reached",
        "_reported",
        "_rollup",
        "_run_id",
        "_runs",
        "_sampled",
        "_seen",
        "_sequence",
        "_settings",
        "_stagger",
        "_until",
        "last",
        "ledger",
        "node_id",
        "silent",
        "states",
    )

    def __init__(self, node_id: str, settings: Thresholds, ledger: Ledger | None = None) -> None:
        self.node_id = node_id
        self.last = self._reached = self._sampled = self._until = -inf
        self._due = inf
        self._stagger = crc32(node_id.encode()) / _EVERY_32_BITS
        self.silent = True
        self.states: tuple[State, ...] = ()
        self._settings = settings
        self._gathering = Gathering()
        self.ledger = Ledger(node_id) if ledger is None else ledger
        self._rollup = Rollup(node_id)
        self._seen = Seen()
        self._reported: list[str] | None = None
        self._runs: dict[str | None, int] = {}
        self._run_id: str | None = None
        self._sequence = -1
        self._set_pace(None)

    def gathers(self, change: Change, spacing_seconds: float = 0.0) -> bool:
        """Put a report by that is like the one before; else it must be taken as a turn.

        Of one that comes so soon after the last sample the figures are left out.
        """
        at, snapshot = change.at, change.snapshot
        if (
            not self.last < at < self._until
            or at - self.last > self._limit
            or change.turns
            or change.reported is not self._reported
            or snapshot.interval_seconds != self._pace
            or snapshot.run_id != self._run_id
            or (change.stirred and not self._only_memory(change))
        ):
            return False
        if at - self._sampled >= spacing_seconds:
            self._gathering.add(at, snapshot)
            self._sampled = at
        self.last, self._sequence = at, snapshot.sequence
        return True

    def turn(self, change: Change, batch: Batch, spacing_seconds: float = 0.0) -> bool:
        """Take a report that is not like the one before; false when its time was counted."""
        if change.at < self.last:
            self._until = -inf  # whatever it says, the next must be looked at closely
            if self.last - change.at < _SET_BACK_SECONDS or self._has_heard(change.snapshot):
                return False
            self._start_over(batch)
        at = max(change.at, self._reached)
        if at - self.last > self._limit:
            self.fall_silent(batch)
            self._resume_at(at, batch)
        else:
            self._count(at, batch)
        if at >= self._due:
            batch.series += roll_up([self.task(at)])
        self._look(change, at, batch, closely=self._until == -inf)
        self._gathering.add(at, change.snapshot)
        self._sampled = at
        self._set_pace(change.snapshot.interval_seconds)
        self.last = change.at
        if change.snapshot.run_id != self._run_id:
            self._heard()
        self._run_id, self._sequence = change.snapshot.run_id, change.snapshot.sequence
        # Where its time was counted in part, the next may be of that time as well.
        self._until = inf if at == change.at else -inf
        self.put_off(spacing_seconds)
        self.silent = False
        return True

    def task(self, end: float | None = None) -> Task:
        """What is to be made rows: up to the latest report, or to `end`."""
        return Task(self._rollup, self._gathering, self.last if end is None else end, self._holds)

    def put_off(self, spacing_seconds: float) -> None:
        """Let what is gathered wait until it is enough, and not that of all nodes at once."""
        minutes = min(max(1, round(max(self._holds, spacing_seconds))), _MOST_MINUTES)
        first, every = self._stagger * minutes * _MINUTE, minutes * _MINUTE
        self._due = first + ((self.last - first) // every + 1) * every
        if self._until > -inf:
            self._until = self._due + _PATIENCE_SECONDS

    def look_again(self, latest: Snapshot | None = None) -> None:
        """Let the next report be a turn, whatever it says; not where the latest shows the same."""
        if latest is None or not self._seen.shows(latest):
            self._until = -inf

    def is_due(self, now: float) -> bool:
        """Whether it is time to make rows of what was gathered."""
        return self._due <= now and not self.silent

    def is_overdue(self, now: float) -> bool:
        """Whether it is time to call the node silent."""
        return not self.silent and now - self.last > self._limit

    def fall_silent(self, batch: Batch) -> None:
        """Count for as long as the last report was to hold, and say that all ended then."""
        if self.silent:
            return
        self._count(max(self.last + self._holds, self._reached), batch)
        self.ledger.silent(self._reached, batch)
        batch.series += self.rows_so_far()
        self.silent, self.states, self._until = True, (), -inf

    def end(self, at: float, batch: Batch) -> None:
        """Nothing more is to come: all ended at `at`, unless that was told before."""
        if not self.silent:
            self._count(max(at, self._reached), batch)
            self.ledger.end(self._reached, batch)
            batch.series += self.rows_so_far()
        self.silent, self.states = True, ()

    def end_within(self, end: float, batch: Batch) -> float:
        """Nothing more is to come before `end`; returns up to when the last report held."""
        soon = end - self.last <= self._limit
        self.end(end if soon else self.last + self._holds, batch)
        return self._reached

    def count(self, batch: Batch) -> None:
        """Count up to the latest report; the sums of hours that are over go into a batch."""
        if not self.silent:
            self._count(self.last, batch)

    def open(self, batch: Batch) -> None:
        """Put all that goes on into a batch, for who asks."""
        if not self.silent:
            self.ledger.open(self._reached, batch)

    def rows_so_far(self) -> list[SeriesRow]:
        """The rows of figures that are not done yet; they replace themselves later."""
        return self._rollup.so_far(self._gathering, max(self.last, self._reached), self._holds)

    def row_at(self, at: float) -> SeriesRow | None:
        """The figures that held at a moment, where no row is done of it yet."""
        return None if self.silent else self._rollup.row_at(self._gathering, at)

    def checkpoint(self) -> Checkpoint:
        """All that is open, for another to go on from."""
        page = Page(
            version=_VERSION,
            last=self.last,
            reached=self._reached,
            pace=self._pace,
            silent=self.silent,
            uuids=self._gathering.uuids,
            gathered=self._gathering.packed,
            ledger=self.ledger.saved(),
            runs=self._heard(),
        )
        return Checkpoint(node_id=self.node_id, data=_encode(page))

    def restore(self, data: bytes) -> None:
        """Go on from a checkpoint; raises `ValueError` when it is not one of this version."""
        page = _decoder.decode(data)
        if page.version not in _VERSIONS:
            raise ValueError(f"of version {page.version}")
        self.last, self._reached, self.silent = page.last, page.reached, page.silent
        self._set_pace(page.pace)
        self._gathering = Gathering(page.uuids, page.gathered)
        self.ledger = Ledger(self.node_id, page.ledger)
        self._runs = page.runs

    @property
    def gathered_since(self) -> float:
        """When the first sample was taken that is not in rows yet; never, where there is none."""
        return self._gathering.since

    def go_on_from(self, rows: Iterable[SeriesRow]) -> None:
        """Take the rows in that are done of the time before: longer ones are made of them."""
        self._rollup = Rollup(self.node_id, rows, self._gathering.since)

    def _has_heard(self, snapshot: Snapshot) -> bool:
        """Whether one as late as this of its run was heard before."""
        run_id = snapshot.run_id
        return run_id is not None and snapshot.sequence <= self._heard().get(run_id, -1)

    def _heard(self) -> dict[str | None, int]:
        """The number of the latest report of each run."""
        if self._run_id is not None:
            self._runs[self._run_id] = self._sequence
            if len(self._runs) > _MOST_RUNS:
                del self._runs[next(iter(self._runs))]
        return self._runs

    def _set_pace(self, pace: float | None) -> None:
        self._pace = pace
        self._holds = _UNTOLD_PACE_SECONDS if pace is None or not pace > 0 else pace
        self._limit = self._settings.silent_after_intervals * self._holds

    def _only_memory(self, change: Change) -> bool:
        """Whether the same people are there, with other memory: then that is remembered."""
        if not self._seen.has_people_of(change):
            return False
        gpus, stirred = change.snapshot.gpus, change.stirred
        parts: list[Gpu | Instance] = [*gpus, *[part for gpu in gpus for part in gpu.instances]]
        for part in parts:
            if part.uuid in stirred:
                memory = {one.pid: one.gpu_memory_bytes for one in part.processes or ()}
                self.ledger.remember(part.uuid, memory, change.at)
        return True

    def _look(self, change: Change, at: float, batch: Batch, *, closely: bool) -> None:
        """See who is there and how all stands, where that may be another than before."""
        snapshot, standings = change.snapshot, change.standings
        closely = closely or change.reported is not self._reported
        some = None if closely else self._seen.stirred(change)
        if some is None:
            uuids = uuids_in(snapshot)
            self._gathering.arrange(uuids)
            parts = parts_of(snapshot.gpus, standings, uuids)
            self.ledger.see([*parts, *missing_parts(standings, parts)], at, batch)
        else:
            parts = parts_of(some, standings, self._gathering.uuids)
            self.ledger.see_again(parts, at, batch)
        self._seen, self._reported = Seen(change), change.reported
        if change.turns or some is None:
            self.states = _states(change)

    def _resume_at(self, at: float, batch: Batch) -> None:
        """Hear a node again that was silent, or was never heard of."""
        if self._reached > -inf:
            self.ledger.gap(self._reached, at)
            self._gathering.add_nothing(self._reached)
            whole = whole_of(self._holds)
            end = -(-self._reached // whole) * whole
            if at >= end:
                batch.series += roll_up([self.task(end)])
                self._gathering.clear()
        self._reached = at

    def _start_over(self, batch: Batch) -> None:
        """The clock was far ahead: go on from the time that it shows now."""
        self.fall_silent(batch)
        self.ledger, self._rollup = Ledger(self.node_id), Rollup(self.node_id)
        self._gathering.clear()
        self.last = self._reached = -inf

    def _count(self, end: float, batch: Batch) -> None:
        """Count all that was gathered up to `end`, an hour at a time."""
        while self._reached < end:
            hour_end = min(hour_of(self._reached) + HOUR_SECONDS, end)
            sums = self._gathering.sums(self._reached, hour_end, self.ledger.measured())
            self.ledger.account(self._reached, hour_end, sums, batch)
            self._reached = hour_end


def roll_up_all(books: Collection[Book], batch: Batch, spacing_seconds: float) -> None:
    """Make rows of what was gathered in these books, of all of them at once."""
    for book in books:
        book.count(batch)
    batch.series += roll_up([book.task() for book in books])
    for book in books:
        book.put_off(spacing_seconds)


def _states(change: Change) -> tuple[State, ...]:
    """How the GPUs stand; their instances are parts of them."""
    instances = {part.uuid for gpu in change.snapshot.gpus for part in gpu.instances}
    standings = change.standings.items()
    return tuple([one.verdict.state for uuid, one in standings if uuid not in instances])
