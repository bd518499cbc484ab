"""The book of one node: its reports go in, and what they come to goes into a batch.

A report holds until the next, at most until the node counts as silent: then only for as long
as it was to hold. Time that has been counted is never counted again.
"""

from math import inf

import msgspec
from msgspec import Struct

from fleet_smi.hub.fleet import Change
from fleet_smi.hub.history.grains import GRAINS
from fleet_smi.hub.history.holders import parts_of
from fleet_smi.hub.history.ledger import Ledger, Saved
from fleet_smi.hub.history.pieces import Gatherer, uuids_in
from fleet_smi.hub.history.rollup import Rolled, Rollup
from fleet_smi.hub.history.rows import Batch, Checkpoint
from fleet_smi.hub.history.usage import HOUR_SECONDS, hour_of
from fleet_smi.model.crowd import Crowd
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.thresholds import Thresholds

_GRAIN = GRAINS[0]
_VERSION = 1
# A clock that is set back by less is waited for: that time has been counted.
_SET_BACK_SECONDS = 3600.0
# So many lives of an agent are told apart.
_MOST_RUNS = 4
_UNTOLD_PACE_SECONDS = 300.0


class Page(Struct, kw_only=True, array_like=True):
    """All of a book that is open, as it is written down."""

    version: int
    last: float
    reached: float
    pace: float | None
    silent: bool
    uuids: tuple[str, ...]
    gathered: bytes
    ledger: Saved
    rolled: Rolled
    runs: dict[str | None, int] = {}


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Page)


class Book:
    """Of one node.

    `last` is when the latest report was taken; up to `_reached` all is counted in the ledger.
    A report like the one before is only gathered, until `_until`; any other is a turn.
    `states` has one for each GPU, and none while the node is silent. `_runs` has the number of
    the latest report of each run: what has a lower one is sent again.
    """

    __slots__ = (
        "_crowds",
        "_gatherer",
        "_holds",
        "_limit",
        "_pace",
        "_reached",
        "_reported",
        "_rollup",
        "_runs",
        "_settings",
        "_starts",
        "_until",
        "last",
        "ledger",
        "node_id",
        "silent",
        "states",
    )

    def __init__(self, node_id: str, settings: Thresholds, ledger: Ledger | None = None) -> None:
        self.node_id = node_id
        self.last = self._reached = self._until = -inf
        self.silent = True
        self.states: tuple[State, ...] = ()
        self._settings = settings
        self._gatherer = Gatherer()
        self.ledger = Ledger(node_id) if ledger is None else ledger
        self._rollup = Rollup(node_id)
        self._crowds: list[Crowd] = []
        self._reported: list[str] | None = None
        self._starts: list[float | None] = []
        self._runs: dict[str | None, int] = {}
        self._set_pace(None)

    def gathers(self, change: Change) -> bool:
        """Put a report by that is like the one before; else it must be taken as a turn."""
        at, snapshot = change.at, change.snapshot
        if (
            not self.last < at < self._until
            or at - self.last > self._limit
            or change.turns
            or change.reported is not self._reported
            or snapshot.interval_seconds != self._pace
        ):
            return False
        crowds = [standing.crowd for standing in change.standings.values()]
        if crowds != self._crowds and not self._only_memory(change, crowds):
            return False
        self._gatherer.gather(at, snapshot)
        self.last = at
        self._runs[snapshot.run_id] = snapshot.sequence
        return True

    def turn(self, change: Change, batch: Batch) -> bool:
        """Take a report that is not like the one before; false when its time was counted."""
        if change.at < self.last:
            self._until = -inf  # whatever it says, the next must be looked at closely
            if self.last - change.at < _SET_BACK_SECONDS or self._has_heard(change.snapshot):
                return False
            self._start_over(batch)
        at = max(change.at, self._reached)
        if at - self.last > self._limit:
            self.fall_silent(batch)
            self._resume_at(at)
        else:
            self._count(at, batch)
        self._look(change, at, batch, closely=self._until == -inf)
        self._gatherer.gather(at, change.snapshot)
        self._set_pace(change.snapshot.interval_seconds)
        self._count_run(change.snapshot)
        self.last = change.at
        # Where its time was counted in part, the next may be of that time as well.
        self._until = (at // _GRAIN + 1) * _GRAIN if at == change.at else -inf
        self.silent = False
        return True

    def is_overdue(self, now: float) -> bool:
        """Whether it is time to call the node silent."""
        return not self.silent and now - self.last > self._limit

    def fall_silent(self, batch: Batch) -> None:
        """Count for as long as the last report was to hold, and say that all ended then."""
        if self.silent:
            return
        self._count(self.last + self._holds, batch, carry=True)
        self.ledger.silent(self._reached, batch)
        self.silent, self.states, self._until = True, (), -inf

    def end(self, at: float, batch: Batch) -> None:
        """Nothing more is to come: all ended at `at`, unless that was told before."""
        if not self.silent:
            self._count(max(at, self._reached), batch)
            self.ledger.end(self._reached, batch)
        self.silent, self.states = True, ()

    def end_within(self, end: float, batch: Batch) -> float:
        """Nothing more is to come before `end`; returns up to when the last report held."""
        soon = end - self.last <= self._limit
        self.end(end if soon else self.last + self._holds, batch)
        return self._reached

    def open(self, batch: Batch) -> None:
        """Put all that goes on into a batch, for who asks."""
        if not self.silent:
            self.ledger.open(self._reached, batch)

    def checkpoint(self) -> Checkpoint:
        """All that is open, for another to go on from."""
        page = Page(
            version=_VERSION,
            last=self.last,
            reached=self._reached,
            pace=self._pace,
            silent=self.silent,
            uuids=self._gatherer.uuids,
            gathered=bytes(self._gatherer.gathered),
            ledger=self.ledger.saved(),
            rolled=self._rollup.rolled,
            runs=self._runs,
        )
        return Checkpoint(node_id=self.node_id, data=_encoder.encode(page))

    def restore(self, data: bytes) -> None:
        """Go on from a checkpoint; raises `ValueError` when it is not one of this version."""
        page = _decoder.decode(data)
        if page.version != _VERSION:
            raise ValueError(f"of version {page.version}")
        self.last, self._reached, self.silent = page.last, page.reached, page.silent
        self._set_pace(page.pace)
        self._gatherer = Gatherer(page.uuids, page.gathered)
        self.ledger = Ledger(self.node_id, page.ledger)
        self._rollup = Rollup(self.node_id, page.rolled)
        self._runs = page.runs

    def _has_heard(self, snapshot: Snapshot) -> bool:
        """Whether one as late as this of its run was heard before."""
        run_id = snapshot.run_id
        return run_id is not None and snapshot.sequence <= self._runs.get(run_id, -1)

    def _count_run(self, snapshot: Snapshot) -> None:
        self._runs[snapshot.run_id] = snapshot.sequence
        if len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]

    def _set_pace(self, pace: float | None) -> None:
        self._pace = pace
        self._holds = _UNTOLD_PACE_SECONDS if pace is None or not pace > 0 else pace
        self._limit = self._settings.silent_after_intervals * self._holds

    def _only_memory(self, change: Change, crowds: list[Crowd]) -> bool:
        """Whether the same people are there, with other memory: then that is remembered."""
        if [*map(_who, crowds)] != [*map(_who, self._crowds)]:
            return False
        gpus = change.snapshot.gpus
        parts: list[Gpu | Instance] = [*gpus, *[part for gpu in gpus for part in gpu.instances]]
        for part in parts:
            memory = {one.pid: one.gpu_memory_bytes for one in part.processes or ()}
            self.ledger.remember(part.uuid, memory, change.at)
        self._crowds = crowds
        return True

    def _look(self, change: Change, at: float, batch: Batch, *, closely: bool) -> None:
        """See who is there and how all stands, where that may be another than before."""
        snapshot = change.snapshot
        crowds = [standing.crowd for standing in change.standings.values()]
        starts = [one.started_at for gpu in snapshot.gpus for one in gpu.processes or ()]
        same = change.reported is self._reported and crowds == self._crowds
        if same and starts == self._starts and not change.turns and not closely:
            return
        uuids = uuids_in(snapshot)
        if uuids != self._gatherer.uuids:
            self._gatherer = Gatherer(uuids)
        self.ledger.see(parts_of(snapshot, change.standings, uuids), at, batch)
        self._reported, self._crowds, self._starts = change.reported, crowds, starts
        self.states = _states(change)

    def _resume_at(self, at: float) -> None:
        """Hear a node again that was silent, or was never heard of."""
        if self._reached > -inf:
            self.ledger.gap(self._reached, at)
        self._gatherer.gathered.clear()
        self._reached = at

    def _start_over(self, batch: Batch) -> None:
        """The clock was far ahead: go on from the time that it shows now."""
        self.fall_silent(batch)
        self.ledger, self._rollup = Ledger(self.node_id), Rollup(self.node_id)
        self.last = self._reached = -inf

    def _count(self, end: float, batch: Batch, *, carry: bool = False) -> None:
        """Count all that was gathered up to `end`, an hour at a time."""
        hour_end = hour_of(self._reached) + HOUR_SECONDS
        while hour_end < end:
            self._fold(hour_end, batch, carry=True)
            hour_end += HOUR_SECONDS
        self._fold(end, batch, carry=carry)
        self._reached = end

    def _fold(self, end: float, batch: Batch, *, carry: bool) -> None:
        piece = self._gatherer.piece(end)
        if piece is not None:
            self.ledger.account(piece, batch)
            batch.series += self._rollup.take(piece, self._gatherer.uuids, self._holds)
            if carry:
                self._gatherer.carry(piece)


def _who(crowd: Crowd) -> tuple[frozenset[int] | None, str]:
    return crowd.pids, crowd.name


def _states(change: Change) -> tuple[State, ...]:
    """How the GPUs stand; their instances are parts of them."""
    instances = {part.uuid for gpu in change.snapshot.gpus for part in gpu.instances}
    standings = change.standings.items()
    return tuple([one.verdict.state for uuid, one in standings if uuid not in instances])
