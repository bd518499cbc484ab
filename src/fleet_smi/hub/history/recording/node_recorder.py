"""Recorder of one node: turns its reports into ledger intervals, usage and series samples.

A report holds until the next one. When the next is so late that the node counts as silent, it
holds only for its own reporting interval. Time that has been counted is never counted again.
"""

from collections.abc import Collection, Iterable
from math import inf
from zlib import crc32

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.hub.history.recording.change_detector import ChangeDetector
from fleet_smi.hub.history.recording.checkpoint_codec import (
    STATE_VERSION,
    NodeRecorderState,
    decode_state,
    encode_state,
)
from fleet_smi.hub.history.recording.holders import device_uses, missing_devices
from fleet_smi.hub.history.recording.ledger import Ledger
from fleet_smi.hub.history.recording.rows import Checkpoint, WriteBatch
from fleet_smi.hub.history.recording.usage import HOUR_SECONDS, hour_start
from fleet_smi.hub.history.series.buffer import CURRENT_COLUMNS, SampleBuffer, device_uuids
from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.rollup import Rollup, RollupTask, min_rollup_seconds, roll_up
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds

_MINUTE = GRAINS[1]
# After a clock was set back by less than this, its reports are ignored until it has caught up:
# their time has been counted.
_MAX_CLOCK_STEP_SECONDS = 3600.0
_MAX_RUNS = 4  # agent restarts whose sequence numbers are remembered
_DEFAULT_INTERVAL_SECONDS = 300.0  # of a node that does not report its interval
_MAX_ROLLUP_MINUTES = 5
# The periodic check rolls up many nodes together. A node that it has not reached after this time
# is rolled up alone, by its next report.
_ROLLUP_GRACE_SECONDS = 30.0
_CRC_RANGE = 1 << 32


class NodeRecorder:
    """Records the reports of one node.

    Time up to `_accounted_until` is counted in the ledger. A report that shows no change is
    only buffered, while it is older than `_buffer_until`; any other is compared with the one
    before, GPU by GPU, or in a full diff where `_buffer_until` is minus infinity. At
    `_rollup_due` the buffered samples are rolled up into rows. `states` has the state of each
    GPU and is empty while the node is silent. `_reported_uuids` are the GPUs in the latest
    report. `_runs` maps each run of the agent to its latest sequence number: a report with a
    lower one was sent before.
    """

    __slots__ = (
        "_accounted_until",
        "_buffer",
        "_buffer_until",
        "_detector",
        "_holds_seconds",
        "_interval_seconds",
        "_reported_uuids",
        "_rollup",
        "_rollup_due",
        "_run_id",
        "_runs",
        "_sampled_at",
        "_sequence",
        "_silent_after_seconds",
        "_stagger",
        "_thresholds",
        "last_report_at",
        "ledger",
        "node_id",
        "silent",
        "states",
    )

    def __init__(self, node_id: str, thresholds: Thresholds, ledger: Ledger | None = None) -> None:
        self.node_id = node_id
        self.last_report_at = self._accounted_until = self._sampled_at = self._buffer_until = -inf
        self._rollup_due = inf
        # A checksum, because `hash` gives other values in every process.
        self._stagger = crc32(node_id.encode()) / _CRC_RANGE
        self.silent = True
        self.states: tuple[State, ...] = ()
        self._thresholds = thresholds
        self._buffer = SampleBuffer()
        self.ledger = Ledger(node_id) if ledger is None else ledger
        self._rollup = Rollup(node_id)
        self._detector = ChangeDetector()
        self._reported_uuids: list[str] | None = None
        self._runs: dict[str | None, int] = {}
        self._run_id: str | None = None
        self._sequence = -1
        self._set_interval(None)

    def try_buffer(self, change: FleetChange, min_spacing_seconds: float = 0.0) -> bool:
        """Buffer a report that shows no change; return false where `record` must take it.

        Its figures are skipped when the last sample is less than `min_spacing_seconds` old.
        """
        at, snapshot = change.at, change.snapshot
        if (
            not self.last_report_at < at < self._buffer_until
            or at - self.last_report_at > self._silent_after_seconds
            or change.transitions
            or change.reported_uuids is not self._reported_uuids
            or snapshot.interval_seconds != self._interval_seconds
            or snapshot.run_id != self._run_id
            # Last, because it updates the ledger: no later condition may reject the report.
            or (change.occupancy_changed and not self._record_memory_change(change))
        ):
            return False
        if at - self._sampled_at >= min_spacing_seconds:
            self._buffer.add(at, snapshot)
            self._sampled_at = at
        self.last_report_at, self._sequence = at, snapshot.sequence
        return True

    def record(
        self, change: FleetChange, batch: WriteBatch, min_spacing_seconds: float = 0.0
    ) -> bool:
        """Record a report that may show changes; return false when its time was counted before."""
        if change.at < self.last_report_at:
            self._buffer_until = -inf  # the next report needs a full diff
            # A backlog that is resent after a kill may be older than the largest clock step:
            # sequence numbers distinguish the two.
            if self.last_report_at - change.at < _MAX_CLOCK_STEP_SECONDS or self._was_received(
                change.snapshot
            ):
                return False
            self._reset_after_clock_step(batch)
        # When a node falls silent, time beyond its last report is counted.
        at = max(change.at, self._accounted_until)
        if at - self.last_report_at > self._silent_after_seconds:
            self.mark_silent(batch)
            self._resume_at(at, batch)
        else:
            self._account(at, batch)
        if at >= self._rollup_due:
            batch.series += roll_up([self.rollup_task(at)])
        self._diff(change, at, batch, full=self._buffer_until == -inf)
        self._buffer.add(at, change.snapshot)
        self._sampled_at = at
        self._set_interval(change.snapshot.interval_seconds)
        self.last_report_at = change.at
        if change.snapshot.run_id != self._run_id:
            self._latest_sequences()
        self._run_id, self._sequence = change.snapshot.run_id, change.snapshot.sequence
        # Part of its time was counted already: the next report may lie in that time as well.
        self._buffer_until = inf if at == change.at else -inf
        self.schedule_rollup(min_spacing_seconds)
        self.silent = False
        return True

    def rollup_task(self, end: float | None = None) -> RollupTask:
        """The task to roll up the buffered samples, up to the latest report or to `end`."""
        return RollupTask(
            self._rollup,
            self._buffer,
            self.last_report_at if end is None else end,
            self._holds_seconds,
        )

    def schedule_rollup(self, min_spacing_seconds: float) -> None:
        """Set the time of the next rollup: after enough samples, staggered across nodes."""
        # One minute per second between samples makes about 60 samples per rollup.
        minutes = round(max(self._holds_seconds, min_spacing_seconds))
        period = min(max(1, minutes), _MAX_ROLLUP_MINUTES) * _MINUTE
        phase = self._stagger * period
        self._rollup_due = phase + ((self.last_report_at - phase) // period + 1) * period
        if self._buffer_until > -inf:
            self._buffer_until = self._rollup_due + _ROLLUP_GRACE_SECONDS

    def force_full_diff(self, latest: Snapshot | None = None) -> None:
        """Force a full diff of the next report, unless `latest` shows the same processes."""
        if latest is None or not self._detector.has_same_processes(latest):
            self._buffer_until = -inf

    def is_rollup_due(self, now: float) -> bool:
        """Whether the buffered samples are due to be rolled up."""
        return self._rollup_due <= now and not self.silent

    def is_timed_out(self, now: float) -> bool:
        """Whether the node has not reported for so long that it counts as silent."""
        return not self.silent and now - self.last_report_at > self._silent_after_seconds

    def mark_silent(self, batch: WriteBatch) -> None:
        """Count the time for which the last report holds, and write that everything ended then."""
        if self.silent:
            return
        self._account(max(self.last_report_at + self._holds_seconds, self._accounted_until), batch)
        self.ledger.record_silence(self._accounted_until, batch)
        batch.series += self.partial_rows()
        self.silent, self.states, self._buffer_until = True, (), -inf

    def end(self, at: float, batch: WriteBatch) -> None:
        """End everything at `at`; a silent node has been ended already."""
        if not self.silent:
            self._account(max(at, self._accounted_until), batch)
            self.ledger.end(self._accounted_until, batch)
            batch.series += self.partial_rows()
        self.silent, self.states = True, ()

    def end_by(self, end: float, batch: WriteBatch) -> float:
        """End everything when the last report ceases to hold, at most at `end`; return when."""
        holds_until_end = end - self.last_report_at <= self._silent_after_seconds
        self.end(end if holds_until_end else self.last_report_at + self._holds_seconds, batch)
        return self._accounted_until

    def add_usage(self, batch: WriteBatch) -> None:
        """Count the time up to the latest report; sums of finished hours go into a batch."""
        if not self.silent:
            self._account(self.last_report_at, batch)

    def collect_open(self, batch: WriteBatch) -> None:
        """Copy all open intervals into a batch, for queries."""
        if not self.silent:
            self.ledger.collect_open(self._accounted_until, batch)

    def partial_rows(self) -> list[SeriesRow]:
        """The unfinished rows; finished ones with the same keys replace them later."""
        return self._rollup.partial_rows(
            self._buffer, max(self.last_report_at, self._accounted_until), self._holds_seconds
        )

    def row_at(self, at: float) -> SeriesRow | None:
        """The figures that hold at a time, where they are not in a finished row yet."""
        return None if self.silent else self._rollup.row_at(self._buffer, at)

    def checkpoint(self) -> Checkpoint:
        """Encode the open state, from which a restarted hub resumes."""
        state = NodeRecorderState(
            version=STATE_VERSION,
            last_report_at=self.last_report_at,
            accounted_until=self._accounted_until,
            interval_seconds=self._interval_seconds,
            silent=self.silent,
            uuids=self._buffer.uuids,
            samples=self._buffer.packed,
            ledger=self.ledger.to_state(),
            runs=self._latest_sequences(),
            columns=CURRENT_COLUMNS,
        )
        return Checkpoint(node_id=self.node_id, data=encode_state(state))

    def restore(self, data: bytes) -> None:
        """Resume from a checkpoint; raise `ValueError` when it is not readable."""
        state = decode_state(data)
        self.last_report_at, self._accounted_until, self.silent = (
            state.last_report_at,
            state.accounted_until,
            state.silent,
        )
        self._set_interval(state.interval_seconds)
        self._buffer = SampleBuffer(state.uuids, state.samples)
        self.ledger = Ledger(self.node_id, state.ledger)
        self._runs = state.runs

    @property
    def buffered_since(self) -> float:
        """The time of the first sample that is not in rows yet; infinite where there is none."""
        return self._buffer.since

    def resume_rollup(self, rows: Iterable[SeriesRow]) -> None:
        """Resume the rollup with stored rows, of which unfinished coarser rows are made."""
        self._rollup = Rollup(self.node_id, rows, self._buffer.since)

    def _was_received(self, snapshot: Snapshot) -> bool:
        """Whether this report, or a later one of the same run, was received before."""
        run_id = snapshot.run_id
        return run_id is not None and snapshot.sequence <= self._latest_sequences().get(run_id, -1)

    def _latest_sequences(self) -> dict[str | None, int]:
        """The latest sequence number of each run, the current one included."""
        if self._run_id is not None:
            self._runs[self._run_id] = self._sequence
            if len(self._runs) > _MAX_RUNS:
                # A dict is in insertion order: the first is the oldest run.
                del self._runs[next(iter(self._runs))]
        return self._runs

    def _set_interval(self, seconds: float | None) -> None:
        self._interval_seconds = seconds
        # The comparison is false for NaN as well.
        self._holds_seconds = (
            seconds if seconds is not None and seconds > 0 else _DEFAULT_INTERVAL_SECONDS
        )
        self._silent_after_seconds = self._thresholds.silent_after_intervals * self._holds_seconds

    def _record_memory_change(self, change: FleetChange) -> bool:
        """Update the memory of processes where only that changed; else return false."""
        if not self._detector.has_same_users(change):
            return False
        gpus, changed_uuids = change.snapshot.gpus, change.occupancy_changed
        instances = [instance for gpu in gpus for instance in gpu.instances]
        devices: list[Gpu | Instance] = [*gpus, *instances]
        for device in devices:
            if device.uuid in changed_uuids:
                memory = {proc.pid: proc.gpu_memory_bytes for proc in device.processes or ()}
                self.ledger.update_memory(device.uuid, memory, change.at)
        return True

    def _diff(self, change: FleetChange, at: float, batch: WriteBatch, *, full: bool) -> None:
        """Update the ledger: of the changed GPUs only, or of all in a `full` diff."""
        snapshot, standings = change.snapshot, change.standings
        # By identity: the fleet passes the same list while the GPUs of a node stay the same.
        full = full or change.reported_uuids is not self._reported_uuids
        changed = None if full else self._detector.changed_gpus(change)
        if changed is None:
            uuids = device_uuids(snapshot)
            self._buffer.set_gpus(uuids)
            uses = device_uses(snapshot.gpus, standings, uuids)
            self.ledger.update([*uses, *missing_devices(standings, uses)], at, batch)
        else:
            uses = device_uses(changed, standings, self._buffer.uuids)
            self.ledger.update_some(uses, at, batch)
        self._detector, self._reported_uuids = ChangeDetector(change), change.reported_uuids
        if change.transitions or changed is None:
            self.states = _gpu_states(change)

    def _resume_at(self, at: float, batch: WriteBatch) -> None:
        """Begin counting at `at`, after a silence or with the first report of a node."""
        if self._accounted_until > -inf:
            self.ledger.add_gap(self._accounted_until, at)
            self._buffer.add_unknown(self._accounted_until)
            grain = min_rollup_seconds(self._holds_seconds)
            end = -(-self._accounted_until // grain) * grain
            # Within the same grain the samples before and after the gap share a row.
            if at >= end:
                batch.series += roll_up([self.rollup_task(end)])
                self._buffer.clear()
        self._accounted_until = at

    def _reset_after_clock_step(self, batch: WriteBatch) -> None:
        """End everything and start empty: the node's clock was far ahead and was set back."""
        self.mark_silent(batch)
        self.ledger, self._rollup = Ledger(self.node_id), Rollup(self.node_id)
        self._buffer.clear()
        self.last_report_at = self._accounted_until = -inf

    def _account(self, end: float, batch: WriteBatch) -> None:
        """Add the time up to `end` to the ledger's usage, hour by hour."""
        while self._accounted_until < end:
            hour_end = min(hour_start(self._accounted_until) + HOUR_SECONDS, end)
            sums = self._buffer.sums(
                self._accounted_until, hour_end, self.ledger.measured_columns()
            )
            self.ledger.add_usage(self._accounted_until, hour_end, sums, batch)
            self._accounted_until = hour_end


def roll_up_nodes(
    recorders: Collection[NodeRecorder], batch: WriteBatch, min_spacing_seconds: float
) -> None:
    """Roll up the buffered samples of many nodes together, which is cheaper than one by one."""
    for recorder in recorders:
        recorder.add_usage(batch)
    batch.series += roll_up([recorder.rollup_task() for recorder in recorders])
    for recorder in recorders:
        recorder.schedule_rollup(min_spacing_seconds)


def _gpu_states(change: FleetChange) -> tuple[State, ...]:
    """The states of whole GPUs, without those of their instances."""
    instances = {part.uuid for gpu in change.snapshot.gpus for part in gpu.instances}
    standings = change.standings.items()
    return tuple([standing.verdict.state for uuid, standing in standings if uuid not in instances])
