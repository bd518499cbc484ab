"""History recorder of a fleet: takes fleet changes in and puts write batches into the queue.

Runs on the event loop and never blocks.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TypeVar

from fleet_smi.errors import StateError
from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.hub.history.recording.clock_steps import MAX_IGNORED_STEP_SECONDS, ReplacedTime
from fleet_smi.hub.history.recording.ended_hours import EndedHours
from fleet_smi.hub.history.recording.history_storage import HistoryStorage
from fleet_smi.hub.history.recording.late_reports import LateReports
from fleet_smi.hub.history.recording.node_descriptions import NodeDescriptions
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.recording_faults import RecordingFaults
from fleet_smi.hub.history.recording.restore import restore_recorders
from fleet_smi.hub.history.recording.ribbon import RibbonCounter
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.recording.sample_spacing import SampleSpacing
from fleet_smi.hub.history.recording.steady_reports import SteadyReports
from fleet_smi.hub.history.series.rollup import roll_up_isolated
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.rotation import PeriodicTimer, Rotation, WorkQueue

logger = logging.getLogger(__name__)
_T = TypeVar("_T")
_SECONDS = 2.0  # between two checks of the whole, and between two batches
# The nodes of a large fleet are checked in as many parts, each every 8 seconds.
_NODE_CHECK_SECONDS, _NODE_CHECK_PARTS = 0.25, 32
# A part of a gap takes milliseconds to finish, and a fleet resends its backlog together.
_MAX_LATE_ENDED_PER_TICK = 4


class HistoryRecorder:
    """Records what happens to every node of a fleet."""

    def __init__(self, fleet: FleetState, storage: HistoryStorage) -> None:
        self._fleet, self._storage = fleet, storage
        self._recorders, self._spacing = dict[str, NodeRecorder](), SampleSpacing()
        self.steady_reports = SteadyReports(fleet, self._recorders, self._spacing)
        self._late: dict[str, LateReports] = {}
        self._ended_hours, self._descriptions = EndedHours(), NodeDescriptions(fleet)
        self._ribbon, self._batch = RibbonCounter(), WriteBatch()
        self.unsaved: set[str] = set()
        """Ids of the nodes whose checkpoints go into the next batch."""
        self._now, self._too_late = -inf, 0
        self._fleet_check, self._flush_timer = PeriodicTimer(_SECONDS), PeriodicTimer(_SECONDS)
        self._node_check = PeriodicTimer(_NODE_CHECK_SECONDS)
        self.last_batch = 0
        """The number of the last batch that was queued."""
        self.recorded_rows = 0
        """How many rows reports have caused so far: each interval that ended, and checkpoints."""
        self._rotation = Rotation[NodeRecorder](_NODE_CHECK_PARTS)
        self._late_ending = WorkQueue[str](_MAX_LATE_ENDED_PER_TICK)
        self._faults, self._replaced_time = RecordingFaults(fleet.faults), ReplacedTime()

    def restore(self, now: float = inf) -> None:
        """Resume at `now` from the checkpoints of the previous hub, before the first report."""
        storage, thresholds = self._storage, self._fleet.thresholds
        try:
            recorders = restore_recorders(
                storage.checkpoints(), storage.unfinished_rows, thresholds, self._faults.record
            )
        except StateError as error:
            logger.warning("history checkpoints cannot be read, starting without them: %s", error)
            return
        self._recorders |= {recorder.node_id: recorder for recorder in recorders}
        with suppress(StateError):
            self._replaced_time.restore(storage.recorded_until(), now)

    def record(self, change: FleetChange) -> None:
        """Record one report: the latest of its node, or a late one that fills a gap."""
        node_id, spacing = change.node_id, self._spacing
        try:
            recorder = self._recorders.get(node_id) or self._add_recorder(node_id)
            if change.is_late:
                self._too_late += not self._record_late(recorder, change)
            elif not recorder.try_buffer(change, spacing.seconds, self._fleet.delay_seconds):
                self._record_change(recorder, change)
        except Exception as error:  # noqa: BLE001  # see `_set_aside`
            self._set_aside(node_id, error)
        spacing.reports += 1

    def tick(self, now: float) -> None:
        """Do what is due at `now`: silence checks, rollups, the ribbon point, the next batch."""
        self._now = now
        if self._node_check.is_due(now):
            self._check_nodes()
        if self._fleet_check.is_due(now):
            self._check_fleet()
        self._end_late(filter(None, map(self._late.get, self._late_ending.take())))
        if self._flush_timer.is_due(now):
            self.flush()
        self._faults.record_rejected(self._storage.take_rejected())

    @property
    def latest_report_at(self) -> float:
        """The time of the latest report of any node; minus infinity without any."""
        return max([node.last_report_at for node in self._recorders.values()], default=-inf)

    def step_clock(self, now: float, seconds: float) -> None:
        """Continue at `now`, because the hub's clock was set by `seconds`, forward or back."""
        nodes = list(self._recorders.values())
        self._collect(nodes, lambda recorder: recorder.ledger.shift_skews(seconds))
        if abs(seconds) <= MAX_IGNORED_STEP_SECONDS:
            return
        self._end_late(list(self._late.values()))
        self.flush()

        def step_node(recorder: NodeRecorder) -> WriteBatch:
            previous, batch = recorder.states, WriteBatch()
            recorder.step_clock(now, seconds, batch)
            self._ribbon.count(previous, recorder.states)
            self.unsaved.add(recorder.node_id)
            return batch

        self._batch.extend(*self._collect(nodes, step_node))
        self._batch.gaps.append(self._replaced_time.step_clock(now, seconds))
        self._now = now
        self.flush()

    def remove_node(self, node_id: str, now: float) -> None:
        """End the history of a node that was removed from the fleet."""
        recorder = self._recorders.pop(node_id, None)
        if recorder is None:
            return
        previous = recorder.states
        try:
            # First: it adds usage to the ledger, and marks the node as unsaved.
            if node_id in self._late:
                self._batch.extend(self._end_part(self._late[node_id]))
            recorder.end_by(now, self._batch)
            self._ended_hours.add(node_id, recorder.ledger, self._now)
        except Exception as error:  # noqa: BLE001  # see `_set_aside`
            self._set_aside(node_id, error)
        self._ribbon.count(previous, ())
        self._descriptions.forget(node_id)
        self.unsaved.discard(node_id)
        self._batch.removed_nodes.append(node_id)

    def mark_renamed(self, node_id: str) -> None:
        """Write the new name and labels of a node with its next report."""
        if node_id in self._recorders:
            self._recorders[node_id].force_full_diff()

    def has_late_reports(self, node_id: str) -> bool:
        """Whether late reports of a node are being recorded; saving it now would end that part."""
        return node_id in self._late

    def schedule_save(self, node_ids: Collection[str]) -> int:
        """Put checkpoints of these nodes into the next batch; return its number."""
        self._end_late([self._late[node_id] for node_id in node_ids if node_id in self._late])
        self.unsaved.update(node_ids)
        return self.last_batch + 1

    def is_saved(self, number: int) -> bool:
        """Whether the batch of that number is durable."""
        if number > self.last_batch:
            return not self.unsaved  # an empty batch is never queued
        return self._storage.is_written(number)

    @property
    def is_behind(self) -> bool:
        """Whether reports of the past should wait with their senders, who buffer them."""
        return self._storage.is_behind

    @property
    def is_full(self) -> bool:
        """Whether no report can be recorded now."""
        return self._storage.is_full

    @property
    def is_failing(self) -> bool:
        """Whether the history cannot be written now."""
        return self._storage.is_failing

    def flush(self) -> None:
        """Queue the current batch, with checkpoints of the unsaved nodes."""
        self._flush_timer.restart(self._now)
        batch, self._batch = self._batch, WriteBatch()
        nodes = [node for node in self._existing(self.unsaved) if node.last_report_at > -inf]
        batch.checkpoints = self._collect(nodes, NodeRecorder.checkpoint)
        self.unsaved.clear()
        batch.replaced = self._replaced_time.take_until(self._now)
        if any(getattr(batch, rows) for rows in batch.__struct_fields__):
            self.last_batch = self._storage.put(batch)

    def close(self) -> None:
        """Queue everything, with a checkpoint of each node for the next hub to resume from."""
        self.schedule_save(self._recorders)
        self.flush()

    def add_current_usage(self, node_ids: Iterable[str]) -> None:
        """Put the sums of the current hour of these nodes into the next batch."""
        nodes = self._existing(node_ids)
        self._collect(nodes, lambda node: node.add_usage(self._batch, with_current_hour=True))

    def open_batch(self, node_ids: Iterable[str] | None = None) -> WriteBatch:
        """The open intervals of these nodes, or all, for queries."""
        batch = WriteBatch()

        def collect_open(recorder: NodeRecorder) -> None:
            # Hours that end here are to be written, so they do not go into the copy.
            recorder.add_usage(self._batch)
            recorder.collect_open(batch)

        self._collect(
            self._existing(self._recorders if node_ids is None else node_ids), collect_open
        )
        return batch

    def partial_rows(self, node_ids: Iterable[str]) -> list[SeriesRow]:
        """The unfinished rows of these nodes."""
        rows = self._collect(self._existing(node_ids), NodeRecorder.partial_rows)
        return [row for of_node in rows for row in of_node]

    def rows_at(self, node_ids: Iterable[str], at: float) -> list[SeriesRow]:
        """The figures of these nodes at a time, where they are not in finished rows yet."""
        rows = self._collect(self._existing(node_ids), lambda node: node.row_at(at))
        return [row for row in rows if row is not None]

    def pending_batch(self) -> WriteBatch:
        """The rows that have ended and are not queued yet."""
        return self._batch

    def counts(self) -> Mapping[str, float]:
        """Counters for `/metrics`."""
        return {
            "history_batches_total": self.last_batch,
            "history_reports_too_late_total": self._too_late,
            "history_spacing_seconds": self._spacing.seconds,
        }

    def _existing(self, node_ids: Iterable[str]) -> list[NodeRecorder]:
        return [self._recorders[node_id] for node_id in node_ids if node_id in self._recorders]

    def _check_fleet(self) -> None:
        self._spacing.update(self._now)
        # No report since the last check: the backlog has been resent.
        self._late_ending.add([key for key, late in self._late.items() if not late.pop_received()])
        self._faults.clear_recovered(self._now, self._recorders)
        self._batch.moments += self._ribbon.next_point(self._now, self._recorders.values())

    def _check_nodes(self) -> None:
        now, recorders = self._now, self._rotation.next(self._recorders)
        # Not the time in which the hub itself was too busy to handle reports.
        received_until = now - self._fleet.delay_seconds
        silent = [node for node in recorders if node.is_timed_out(received_until)]
        self._collect(silent, self._mark_silent)
        self._roll_up([recorder for recorder in recorders if recorder.is_rollup_due(now)])

    def _add_recorder(self, node_id: str) -> NodeRecorder:
        ledger, thresholds = self._ended_hours.next_ledger(node_id), self._fleet.thresholds
        return self._recorders.setdefault(node_id, NodeRecorder(node_id, thresholds, ledger))

    def _record_change(self, recorder: NodeRecorder, change: FleetChange) -> None:
        previous, saved = recorder.states, recorder.save_row_count
        row_count = self._batch.interval_row_count
        if recorder.record(change, self._batch, self._spacing.seconds, self._fleet.delay_seconds):
            self._ribbon.count(previous, recorder.states)
            self._descriptions.add(change.snapshot, self._batch)
            if rows := self._batch.interval_row_count - row_count:
                self.unsaved.add(recorder.node_id)
                self.recorded_rows += rows + saved
        else:  # it may still fill a gap, where a killed hub had received what came after it
            self._record_late(recorder, change)

    def _mark_silent(self, recorder: NodeRecorder) -> None:
        previous = recorder.states
        recorder.mark_silent(self._batch)
        self._ribbon.count(previous, recorder.states)
        self.unsaved.add(recorder.node_id)

    def _record_late(self, recorder: NodeRecorder, change: FleetChange) -> bool:
        """Record a late report; return false where there is no gap that it belongs to."""
        previous = late = self._late.get(recorder.node_id)
        if previous is not None and not previous.accepts(change.at):
            self._batch.extend(self._end_part(previous, change.at))
            late = None
        if late is None:
            late = LateReports.for_change(recorder, change, self._fleet.thresholds, previous)
        if late is None:
            return False
        self._late[recorder.node_id] = late
        self.recorded_rows += late.record(change)
        return True

    def _end_late(self, ending: Iterable[LateReports]) -> None:
        recorders = [late.recorder for late in ending]
        ended = self._collect(recorders, lambda node: self._end_part(self._late[node.node_id]))
        self._batch.extend(*ended)

    def _end_part(self, late: LateReports, next_at: float = inf) -> WriteBatch:
        """End a part of a gap and return its rows."""
        del self._late[late.recorder.node_id]
        batch = late.finish(next_at)
        self.unsaved.add(late.recorder.node_id)
        return batch

    def _roll_up(self, recorders: Sequence[NodeRecorder]) -> None:
        self._collect(recorders, lambda recorder: recorder.add_usage(self._batch))
        # Together, which is cheaper than node by node.
        tasks = [each.series.rollup_task(each.last_report_at) for each in recorders]
        rows, failures = roll_up_isolated(tasks)
        self._batch.series += rows
        for failure in failures:
            self._set_aside(failure.node_id, failure.error)
        self._collect(recorders, self._resume_after_rollup)

    def _resume_after_rollup(self, recorder: NodeRecorder) -> None:
        recorder.schedule_rollup(self._spacing.seconds)
        latest = self._fleet.latest_snapshot(recorder.node_id)
        if latest is not None:
            self._descriptions.add(latest, self._batch)
            recorder.force_full_diff(latest)

    def _collect(
        self, recorders: Iterable[NodeRecorder], read: Callable[[NodeRecorder], _T]
    ) -> list[_T]:
        """The result of each recorder; one that fails is set aside."""
        results = []
        for recorder in recorders:
            # It may have been replaced: after a failure, or by the removal of its node.
            if self._recorders.get(recorder.node_id) is recorder:
                try:
                    results.append(read(recorder))
                except Exception as error:  # noqa: BLE001  # see `_set_aside`
                    self._set_aside(recorder.node_id, error)
        return results

    def _set_aside(self, node_id: str, error: Exception) -> None:
        """Drop the recorder of a node in which a bug occurred: its next report begins a new one.

        What the old one held open is ended where that still works. All other nodes go on.
        """
        self._late.pop(node_id, None)
        recorder = self._recorders.pop(node_id, None)
        if recorder is not None:
            self._ribbon.count(recorder.states, ())
            ended = WriteBatch()
            with suppress(Exception):
                recorder.abandon(ended)
                self._batch.extend(ended)
                self._ended_hours.add(node_id, recorder.ledger, self._now)
        self._faults.record(node_id, error)
