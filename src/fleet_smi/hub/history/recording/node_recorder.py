"""The book of one node: its reports go in, and what they come to goes into a batch.

A report holds until the next, at most until the node counts as silent: then only for as long
as it was to hold. Time that has been counted is never counted again.
"""

from collections.abc import Collection, Iterable
from math import inf
from zlib import crc32

import msgspec
from msgspec import Struct

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.hub.history.recording.change_detector import ChangeDetector
from fleet_smi.hub.history.recording.holders import device_uses, missing_devices
from fleet_smi.hub.history.recording.ledger import Ledger, LedgerState
from fleet_smi.hub.history.recording.rows import Checkpoint, SeriesRow, WriteBatch
from fleet_smi.hub.history.recording.usage import HOUR_SECONDS, hour_start
from fleet_smi.hub.history.series.buffer import SampleBuffer, device_uuids
from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.rollup import Rollup, RollupTask, min_rollup_seconds, roll_up
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds

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


class NodeRecorderState(Struct, kw_only=True, array_like=True):
    """All of a book that is open, as it is written down, but for rows that are kept anyway."""

    version: int
    last_report_at: float
    accounted_until: float
    interval_seconds: float | None
    silent: bool
    uuids: tuple[str, ...]
    samples: bytes
    ledger: LedgerState
    unused: msgspec.Raw = msgspec.Raw(_NOTHING)
    runs: dict[str | None, int] = {}


_encode, _decoder = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(NodeRecorderState)


class NodeRecorder:
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
        "last_report_at",
        "ledger",
        "node_id",
        "silent",
        "states",
    )

    def __init__(self, node_id: str, thresholds: Thresholds, ledger: Ledger | None = None) -> None:
        self.node_id = node_id
        self.last_report_at = self._reached = self._sampled = self._until = -inf
        self._due = inf
        self._stagger = crc32(node_id.encode()) / _EVERY_32_BITS
        self.silent = True
        self.states: tuple[State, ...] = ()
        self._settings = thresholds
        self._gathering = SampleBuffer()
        self.ledger = Ledger(node_id) if ledger is None else ledger
        self._rollup = Rollup(node_id)
        self._seen = ChangeDetector()
        self._reported: list[str] | None = None
        self._runs: dict[str | None, int] = {}
        self._run_id: str | None = None
        self._sequence = -1
        self._set_pace(None)

    def try_buffer(self, change: FleetChange, min_spacing_seconds: float = 0.0) -> bool:
        """Put a report by that is like the one before; else it must be taken as a turn.

        Of one that comes so soon after the last sample the figures are left out.
        """
        at, snapshot = change.at, change.snapshot
        if (
            not self.last_report_at < at < self._until
            or at - self.last_report_at > self._limit
            or change.transitions
            or change.reported_uuids is not self._reported
            or snapshot.interval_seconds != self._pace
            or snapshot.run_id != self._run_id
            or (change.occupancy_changed and not self._only_memory(change))
        ):
            return False
        if at - self._sampled >= min_spacing_seconds:
            self._gathering.add(at, snapshot)
            self._sampled = at
        self.last_report_at, self._sequence = at, snapshot.sequence
        return True

    def record(
        self, change: FleetChange, batch: WriteBatch, min_spacing_seconds: float = 0.0
    ) -> bool:
        """Take a report that is not like the one before; false when its time was counted."""
        if change.at < self.last_report_at:
            self._until = -inf  # whatever it says, the next must be looked at closely
            if self.last_report_at - change.at < _SET_BACK_SECONDS or self._has_heard(
                change.snapshot
            ):
                return False
            self._start_over(batch)
        at = max(change.at, self._reached)
        if at - self.last_report_at > self._limit:
            self.mark_silent(batch)
            self._resume_at(at, batch)
        else:
            self._count(at, batch)
        if at >= self._due:
            batch.series += roll_up([self.rollup_task(at)])
        self._look(change, at, batch, closely=self._until == -inf)
        self._gathering.add(at, change.snapshot)
        self._sampled = at
        self._set_pace(change.snapshot.interval_seconds)
        self.last_report_at = change.at
        if change.snapshot.run_id != self._run_id:
            self._heard()
        self._run_id, self._sequence = change.snapshot.run_id, change.snapshot.sequence
        # Where its time was counted in part, the next may be of that time as well.
        self._until = inf if at == change.at else -inf
        self.schedule_rollup(min_spacing_seconds)
        self.silent = False
        return True

    def rollup_task(self, end: float | None = None) -> RollupTask:
        """What is to be made rows: up to the latest report, or to `end`."""
        return RollupTask(
            self._rollup, self._gathering, self.last_report_at if end is None else end, self._holds
        )

    def schedule_rollup(self, min_spacing_seconds: float) -> None:
        """Let what is gathered wait until it is enough, and not that of all nodes at once."""
        minutes = min(max(1, round(max(self._holds, min_spacing_seconds))), _MOST_MINUTES)
        first, every = self._stagger * minutes * _MINUTE, minutes * _MINUTE
        self._due = first + ((self.last_report_at - first) // every + 1) * every
        if self._until > -inf:
            self._until = self._due + _PATIENCE_SECONDS

    def force_full_diff(self, latest: Snapshot | None = None) -> None:
        """Let the next report be a turn, whatever it says; not where the latest shows the same."""
        if latest is None or not self._seen.has_same_processes(latest):
            self._until = -inf

    def is_rollup_due(self, now: float) -> bool:
        """Whether it is time to make rows of what was gathered."""
        return self._due <= now and not self.silent

    def is_timed_out(self, now: float) -> bool:
        """Whether it is time to call the node silent."""
        return not self.silent and now - self.last_report_at > self._limit

    def mark_silent(self, batch: WriteBatch) -> None:
        """Count for as long as the last report was to hold, and say that all ended then."""
        if self.silent:
            return
        self._count(max(self.last_report_at + self._holds, self._reached), batch)
        self.ledger.record_silence(self._reached, batch)
        batch.series += self.partial_rows()
        self.silent, self.states, self._until = True, (), -inf

    def end(self, at: float, batch: WriteBatch) -> None:
        """Nothing more is to come: all ended at `at`, unless that was told before."""
        if not self.silent:
            self._count(max(at, self._reached), batch)
            self.ledger.end(self._reached, batch)
            batch.series += self.partial_rows()
        self.silent, self.states = True, ()

    def end_by(self, end: float, batch: WriteBatch) -> float:
        """Nothing more is to come before `end`; returns up to when the last report held."""
        soon = end - self.last_report_at <= self._limit
        self.end(end if soon else self.last_report_at + self._holds, batch)
        return self._reached

    def add_usage(self, batch: WriteBatch) -> None:
        """Count up to the latest report; the sums of hours that are over go into a batch."""
        if not self.silent:
            self._count(self.last_report_at, batch)

    def collect_open(self, batch: WriteBatch) -> None:
        """Put all that goes on into a batch, for who asks."""
        if not self.silent:
            self.ledger.collect_open(self._reached, batch)

    def partial_rows(self) -> list[SeriesRow]:
        """The rows of figures that are not done yet; they replace themselves later."""
        return self._rollup.partial_rows(
            self._gathering, max(self.last_report_at, self._reached), self._holds
        )

    def row_at(self, at: float) -> SeriesRow | None:
        """The figures that held at a moment, where no row is done of it yet."""
        return None if self.silent else self._rollup.row_at(self._gathering, at)

    def checkpoint(self) -> Checkpoint:
        """All that is open, for another to go on from."""
        page = NodeRecorderState(
            version=_VERSION,
            last_report_at=self.last_report_at,
            accounted_until=self._reached,
            interval_seconds=self._pace,
            silent=self.silent,
            uuids=self._gathering.uuids,
            samples=self._gathering.packed,
            ledger=self.ledger.to_state(),
            runs=self._heard(),
        )
        return Checkpoint(node_id=self.node_id, data=_encode(page))

    def restore(self, data: bytes) -> None:
        """Go on from a checkpoint; raises `ValueError` when it is not one of this version."""
        page = _decoder.decode(data)
        if page.version not in _VERSIONS:
            raise ValueError(f"of version {page.version}")
        self.last_report_at, self._reached, self.silent = (
            page.last_report_at,
            page.accounted_until,
            page.silent,
        )
        self._set_pace(page.interval_seconds)
        self._gathering = SampleBuffer(page.uuids, page.samples)
        self.ledger = Ledger(self.node_id, page.ledger)
        self._runs = page.runs

    @property
    def buffered_since(self) -> float:
        """When the first sample was taken that is not in rows yet; never, where there is none."""
        return self._gathering.since

    def resume_rollup(self, rows: Iterable[SeriesRow]) -> None:
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

    def _only_memory(self, change: FleetChange) -> bool:
        """Whether the same people are there, with other memory: then that is remembered."""
        if not self._seen.has_same_users(change):
            return False
        gpus, stirred = change.snapshot.gpus, change.occupancy_changed
        parts: list[Gpu | Instance] = [*gpus, *[part for gpu in gpus for part in gpu.instances]]
        for part in parts:
            if part.uuid in stirred:
                memory = {one.pid: one.gpu_memory_bytes for one in part.processes or ()}
                self.ledger.update_memory(part.uuid, memory, change.at)
        return True

    def _look(self, change: FleetChange, at: float, batch: WriteBatch, *, closely: bool) -> None:
        """See who is there and how all stands, where that may be another than before."""
        snapshot, standings = change.snapshot, change.standings
        closely = closely or change.reported_uuids is not self._reported
        some = None if closely else self._seen.changed_gpus(change)
        if some is None:
            uuids = device_uuids(snapshot)
            self._gathering.set_gpus(uuids)
            parts = device_uses(snapshot.gpus, standings, uuids)
            self.ledger.update([*parts, *missing_devices(standings, parts)], at, batch)
        else:
            parts = device_uses(some, standings, self._gathering.uuids)
            self.ledger.update_some(parts, at, batch)
        self._seen, self._reported = ChangeDetector(change), change.reported_uuids
        if change.transitions or some is None:
            self.states = _states(change)

    def _resume_at(self, at: float, batch: WriteBatch) -> None:
        """Hear a node again that was silent, or was never heard of."""
        if self._reached > -inf:
            self.ledger.add_gap(self._reached, at)
            self._gathering.add_unknown(self._reached)
            whole = min_rollup_seconds(self._holds)
            end = -(-self._reached // whole) * whole
            if at >= end:
                batch.series += roll_up([self.rollup_task(end)])
                self._gathering.clear()
        self._reached = at

    def _start_over(self, batch: WriteBatch) -> None:
        """The clock was far ahead: go on from the time that it shows now."""
        self.mark_silent(batch)
        self.ledger, self._rollup = Ledger(self.node_id), Rollup(self.node_id)
        self._gathering.clear()
        self.last_report_at = self._reached = -inf

    def _count(self, end: float, batch: WriteBatch) -> None:
        """Count all that was gathered up to `end`, an hour at a time."""
        while self._reached < end:
            hour_end = min(hour_start(self._reached) + HOUR_SECONDS, end)
            sums = self._gathering.sums(self._reached, hour_end, self.ledger.measured_columns())
            self.ledger.add_usage(self._reached, hour_end, sums, batch)
            self._reached = hour_end


def roll_up_nodes(
    recorders: Collection[NodeRecorder], batch: WriteBatch, min_spacing_seconds: float
) -> None:
    """Make rows of what was gathered in these books, of all of them at once."""
    for book in recorders:
        book.add_usage(batch)
    batch.series += roll_up([book.rollup_task() for book in recorders])
    for book in recorders:
        book.schedule_rollup(min_spacing_seconds)


def _states(change: FleetChange) -> tuple[State, ...]:
    """How the GPUs stand; their instances are parts of them."""
    instances = {part.uuid for gpu in change.snapshot.gpus for part in gpu.instances}
    standings = change.standings.items()
    return tuple([one.verdict.state for uuid, one in standings if uuid not in instances])
