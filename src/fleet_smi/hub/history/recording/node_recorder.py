"""Recorder of one node: turns its reports into ledger intervals, usage and series samples.

A report holds until the next one. When the next is so late that the node counts as silent, it
holds only for its own reporting interval. Time that has been counted is never counted again.
"""

from math import inf

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.hub.history.recording.checkpoint_codec import (
    STATE_VERSION,
    NodeRecorderState,
    decode_state,
    encode_state,
)
from fleet_smi.hub.history.recording.latest_sequences import LatestSequences
from fleet_smi.hub.history.recording.ledger import Ledger
from fleet_smi.hub.history.recording.ledger_updates import LedgerUpdater, gpu_states
from fleet_smi.hub.history.recording.node_series import NodeSeries
from fleet_smi.hub.history.recording.rows import Checkpoint, WriteBatch
from fleet_smi.hub.history.recording.usage import HOUR_SECONDS, hour_start
from fleet_smi.hub.history.series.buffer import SampleBuffer
from fleet_smi.hub.history.series.sample_format import CURRENT_COLUMNS, LEADING_COLUMNS
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds

# After a clock was set back by less than this, its reports are ignored until it has caught up:
# their time has been counted.
_MAX_CLOCK_STEP_SECONDS = 3600.0
# The periodic check rolls up many nodes together. A node that it has not reached after this time
# is rolled up alone, by its next report.
_ROLLUP_GRACE_SECONDS = 30.0

# Sums of usage that a checkpoint encodes in the time in which a row is written.
_USAGE_PER_ROW = 20


class NodeRecorder:
    """Records the reports of one node.

    Time up to `_accounted_until` is counted in the ledger. A report that shows no change is
    only buffered, while it is older than `_buffer_until`; any other is compared with the one
    before, GPU by GPU, or in a full diff where `_buffer_until` is minus infinity. `states` has
    the state of each GPU and is empty while the node is silent.
    """

    __slots__ = (
        "_accounted_until",
        "_buffer_until",
        "_interval_seconds",
        "_sampled_at",
        "_sequences",
        "_silent_after_seconds",
        "_thresholds",
        "_updater",
        "last_report_at",
        "ledger",
        "node_id",
        "series",
        "silent",
        "states",
    )

    def __init__(self, node_id: str, thresholds: Thresholds, ledger: Ledger | None = None) -> None:
        self.node_id = node_id
        self.last_report_at = self._accounted_until = self._sampled_at = self._buffer_until = -inf
        self.silent = True
        self.states: tuple[State, ...] = ()
        self._thresholds = thresholds
        self.ledger = Ledger(node_id) if ledger is None else ledger
        self.series = NodeSeries(node_id)
        self._updater = LedgerUpdater()
        self._sequences = LatestSequences()
        self._set_interval(None)

    def try_buffer(
        self, change: FleetChange, min_spacing_seconds: float = 0.0, delay_seconds: float = 0.0
    ) -> bool:
        """Buffer a report that shows no change; return false where `record` must take it.

        Its figures are skipped when the last sample is less than `min_spacing_seconds` old. It may
        be late by `delay_seconds` because the hub was busy: that is no silence.
        """
        at, sample = change.at, change.sample
        if (
            change.transitions
            or not self._is_next(at, sample, change.reported_uuids, delay_seconds)
            # Last, because it updates the ledger: no later condition may reject the report.
            or (
                change.occupancy_changed
                and not self._updater.try_update_memory(self.ledger, change)
            )
        ):
            return False
        self._buffer(at, sample, min_spacing_seconds)
        return True

    def try_buffer_figures(
        self,
        at: float,
        sample: NodeSample,
        uuids: list[str],
        min_spacing_seconds: float,
        delay_seconds: float,
    ) -> bool:
        """Like `try_buffer`, of a report that has changed nothing but figures."""
        is_next = self._is_next(at, sample, uuids, delay_seconds)
        if is_next:
            self._buffer(at, sample, min_spacing_seconds)
        return is_next

    def _is_next(
        self, at: float, sample: NodeSample, uuids: list[str], delay_seconds: float
    ) -> bool:
        last_at, base = self.last_report_at, sample.base
        return (
            last_at < at < self._buffer_until
            and at - last_at <= self._silent_after_seconds + delay_seconds
            and uuids is self._updater.reported_uuids
            and base.interval_seconds == self._interval_seconds
            and base.run_id == self._sequences.run_id
        )

    def _buffer(self, at: float, sample: NodeSample, min_spacing_seconds: float) -> None:
        if at - self._sampled_at >= min_spacing_seconds:
            self.series.buffer.add_sample(at, sample)
            self._sampled_at = at
        self.last_report_at, self._sequences.sequence = at, sample.sequence

    def record(
        self,
        change: FleetChange,
        batch: WriteBatch,
        min_spacing_seconds: float = 0.0,
        delay_seconds: float = 0.0,
    ) -> bool:
        """Record a report that may show changes; return false when its time was counted before."""
        if change.at < self.last_report_at or self._sequences.was_received(change.snapshot):
            self._buffer_until = -inf  # the next report needs a full diff
            # A backlog that is resent after a kill may be older than the largest clock step:
            # sequence numbers distinguish the two.
            is_small_step = self.last_report_at - change.at < _MAX_CLOCK_STEP_SECONDS
            if is_small_step or self._sequences.was_received(change.snapshot):
                return False
            self._reset_after_clock_step(batch)
        # When a node falls silent, time beyond its last report is counted.
        at = max(change.at, self._accounted_until)
        # A hub that is behind must not end and restart all intervals with every report, which
        # takes many times as long: it would never catch up.
        allowed_seconds = self._silent_after_seconds + (0.0 if self.silent else delay_seconds)
        if at - self.last_report_at > allowed_seconds:
            self.mark_silent(batch)
            self._resume_at(at, batch, is_new=change.is_first)
        else:
            self._account(at, batch)
        if at >= self.series.rollup_due:
            self.series.roll_up(at, batch)
        full = self._updater.update(
            self.ledger, self.series.buffer, change, at, batch, full=self._buffer_until == -inf
        )
        if change.transitions or full:
            self.states = gpu_states(change)
        self.series.buffer.add(at, change.snapshot)
        self._sampled_at = at
        self._set_interval(change.snapshot.interval_seconds)
        self.last_report_at = change.at
        self._sequences.update(change.snapshot)
        # Part of its time was counted already: the next report may lie in that time as well.
        self._buffer_until = inf if at == change.at else -inf
        self.schedule_rollup(min_spacing_seconds)
        self.silent = False
        return True

    def schedule_rollup(self, min_spacing_seconds: float) -> None:
        """Set the time of the next rollup, and until when reports may just be buffered."""
        self.series.schedule_rollup(self.last_report_at, min_spacing_seconds)
        if self._buffer_until > -inf:
            self._buffer_until = self.series.rollup_due + _ROLLUP_GRACE_SECONDS

    def force_full_diff(self, latest: Snapshot | None = None) -> None:
        """Force a full diff of the next report, unless `latest` shows the same processes."""
        if latest is None or not self._updater.has_same_processes(latest):
            self._buffer_until = -inf

    def is_rollup_due(self, now: float) -> bool:
        """Whether the buffered samples are due to be rolled up."""
        return self.series.rollup_due <= now and not self.silent

    def is_timed_out(self, now: float) -> bool:
        """Whether the node has not reported for so long that it counts as silent."""
        return not self.silent and now - self.last_report_at > self._silent_after_seconds

    def mark_silent(self, batch: WriteBatch) -> None:
        """Count the time for which the last report holds, and write that everything ended then."""
        if self.silent:
            return
        self._account(max(self._holds_until, self._accounted_until), batch)
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
        self.end(end if holds_until_end else self._holds_until, batch)
        return self._accounted_until

    def abandon(self, batch: WriteBatch) -> None:
        """End what is open without counting more time: after a failure, whatever of it works."""
        if not self.silent:
            self.ledger.end(self._accounted_until, batch)
        self.silent, self.states = True, ()

    @property
    def save_row_count(self) -> int:
        """How many rows its next checkpoint is worth, or all it has after a silence."""
        usage_count = self.ledger.usage_count
        return usage_count if self.silent else usage_count // _USAGE_PER_ROW

    def add_usage(self, batch: WriteBatch, *, with_current_hour: bool = False) -> None:
        """Count the time up to the latest report; sums of finished hours go into a batch."""
        if not self.silent:
            self._account(self.last_report_at, batch)
            if with_current_hour:
                self.ledger.add_current_hour(batch)

    def collect_open(self, batch: WriteBatch) -> None:
        """Copy all open intervals into a batch, for queries."""
        if not self.silent:
            self.ledger.collect_open(self._accounted_until, batch)

    def partial_rows(self) -> list[SeriesRow]:
        """The unfinished rows; finished ones with the same keys replace them later."""
        return self.series.partial_rows(max(self.last_report_at, self._accounted_until))

    def row_at(self, at: float) -> SeriesRow | None:
        """The figures that hold at a time, where they are not in a finished row yet."""
        return None if self.silent else self.series.row_at(at)

    def checkpoint(self) -> Checkpoint:
        """Encode the open state, from which a restarted hub resumes."""
        state = NodeRecorderState(
            version=STATE_VERSION,
            last_report_at=self.last_report_at,
            accounted_until=self._accounted_until,
            interval_seconds=self._interval_seconds,
            silent=self.silent,
            uuids=self.series.buffer.uuids,
            samples=self.series.buffer.packed,
            ledger=self.ledger.to_state(),
            runs=self._sequences.by_run(),
            columns=CURRENT_COLUMNS,
            leading=LEADING_COLUMNS,
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
        self.series.buffer = SampleBuffer(state.uuids, state.samples)
        self.ledger = Ledger(self.node_id, state.ledger)
        self._sequences = LatestSequences(state.runs)

    @property
    def _holds_until(self) -> float:
        return self.last_report_at + self.series.holds_seconds

    def _set_interval(self, seconds: float | None) -> None:
        self._interval_seconds = seconds
        self.series.set_interval(seconds)
        holds_seconds = self.series.holds_seconds
        self._silent_after_seconds = self._thresholds.silent_after_intervals * holds_seconds

    def _resume_at(self, at: float, batch: WriteBatch, *, is_new: bool) -> None:
        """Begin counting at `at`, after a silence or with the first report of a node."""
        if self._accounted_until > -inf:
            self.ledger.add_gap(self._accounted_until, at)
            self.series.add_gap(self._accounted_until, at, batch)
        elif is_new:
            self.ledger.add_past(at)
        self._accounted_until = at

    def step_clock(self, now: float, seconds: float, batch: WriteBatch) -> None:
        """Continue at `now`, because the hub's clock was set by `seconds`, forward or back."""
        if seconds > 0 and not self.silent:
            # What the clock skipped is no time: nobody has used anything in it.
            self.mark_silent(batch)
            self.ledger.step_forward(now, self._accounted_until, seconds, batch)
            self.last_report_at = self._sampled_at = -inf  # the next report resumes after a gap
        elif self.last_report_at > now:
            self._step_back(now, seconds, batch)

    def _step_back(self, now: float, seconds: float, batch: WriteBatch) -> None:
        self.add_usage(batch)
        batch.series += self.partial_rows()
        self.ledger = self.ledger.step_back(now, self._accounted_until, seconds, batch)
        self.series.clear()
        self.last_report_at = self._accounted_until = self._sampled_at = -inf
        self.silent, self.states, self._buffer_until = True, (), -inf

    def _reset_after_clock_step(self, batch: WriteBatch) -> None:
        """End everything and start empty: the node's clock was far ahead and was set back."""
        self.mark_silent(batch)
        self.ledger = Ledger(self.node_id)
        self.series.clear()
        self.last_report_at = self._accounted_until = -inf

    def _account(self, end: float, batch: WriteBatch) -> None:
        """Add the time up to `end` to the ledger's usage, hour by hour."""
        while self._accounted_until < end:
            start, (counted_from, counted_until) = self._accounted_until, self.ledger.counted
            if counted_from <= start < counted_until:  # the clock was set back
                self._accounted_until = min(counted_until, end)
                continue
            hour_end = min(hour_start(start) + HOUR_SECONDS, end)
            if start < counted_from < counted_until:
                hour_end = min(hour_end, counted_from)
            columns = self.ledger.measured_columns()
            sums = self.series.buffer.sums(start, hour_end, columns)
            self.ledger.add_usage(start, hour_end, sums, batch)
            self._accounted_until = hour_end
