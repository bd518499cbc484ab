"""Late reports of one node: they fill a gap in its ledger and change nothing else."""

from math import inf

from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub.history.recording.ledger import Ledger
from fleet_smi.hub.history.recording.ledger_state import TimeGap
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.codec import slice_row
from fleet_smi.model.verdict.thresholds import Thresholds

# A long gap is filled in parts, because the rows are buffered in memory until a part is done.
_MAX_BUFFERED_ROWS = 1000
# The time of a resent report is slightly off: at the edge of a gap it may appear to precede it.
_EDGE_TOLERANCE_INTERVALS = 0.5


class LateReports:
    """The reports from within one gap of a node, in time order.

    The fleet did not judge them, so they are judged here, by a separate `NodeState` that may
    have judged the reports just before them.
    """

    def __init__(
        self, recorder: NodeRecorder, gap: TimeGap, thresholds: Thresholds, node: NodeState
    ) -> None:
        self.recorder = recorder
        self._gap = gap
        self._thresholds = thresholds
        self._node = node
        self._late_recorder = NodeRecorder(
            recorder.node_id, thresholds, Ledger(recorder.node_id, successor=recorder.ledger)
        )
        self._batch = WriteBatch()
        self._received = False
        self._first_at = inf
        self._reported: list[str] = []

    @classmethod
    def for_change(
        cls,
        recorder: NodeRecorder,
        change: FleetChange,
        thresholds: Thresholds,
        previous: "LateReports | None" = None,
    ) -> "LateReports | None":
        """For the gap of a recorder that a report lies in; `None` where there is no such gap.

        Judging continues from the `previous` part of the gap where this report is later.
        """
        at = change.at
        near = at + _EDGE_TOLERANCE_INTERVALS * (change.snapshot.interval_seconds or 0.0)
        gaps = [gap for gap in recorder.ledger.gaps if gap[0] <= near and at < gap[1]]
        node = NodeState(recorder.node_id)
        if previous is not None and previous._late_recorder.last_report_at <= at:
            node = previous._node
        return cls(recorder, gaps[0], thresholds, node) if gaps else None

    def pop_received(self) -> bool:
        """Whether a report was recorded since the last call."""
        received, self._received = self._received, False
        return received

    def accepts(self, at: float) -> bool:
        """Whether a report of that time comes next in this part of the gap."""
        start, end = self._gap
        is_full = len(self._batch.series) >= _MAX_BUFFERED_ROWS
        return not is_full and max(start, self._late_recorder.last_report_at) <= at < end

    def record(self, change: FleetChange) -> int:
        """Judge and record one more report; return the number of rows that it adds."""
        self._received = True
        # `try_buffer` compares lists by identity: pass on the same one while its items are equal.
        if change.reported_uuids != self._reported:
            self._reported = change.reported_uuids
        at = max(change.at, self._gap[0])
        transitions = self._node.update(change.snapshot, at, self._thresholds)
        judged = replace(
            change,
            at=at,
            transitions=transitions,
            standings=self._node.standings,
            occupancy_changed=self._node.standings.occupancy_changed,
            reported_uuids=self._reported,
        )
        row_count = self._batch.interval_row_count
        if not self._late_recorder.try_buffer(judged):
            self._late_recorder.record(judged, self._batch)
        self._first_at = min(self._first_at, at)
        return self._batch.interval_row_count - row_count

    def finish(self, next_at: float = inf) -> WriteBatch:
        """Return the recorded rows; the next part continues at `next_at`."""
        recorded = self._batch
        continues = self._late_recorder.last_report_at <= next_at < self._gap[1]
        end = self._late_recorder.end_by(next_at if continues else self._gap[1], recorded)
        # Rows that reach beyond the gap would replace stored rows that hold more.
        slices = [slice_row(row, *self._gap) for row in recorded.series]
        batch = WriteBatch(
            periods=recorded.periods,
            removed_occupancies=recorded.removed_occupancies,
            occupancies=recorded.occupancies,
            presence=recorded.presence,
            series=[row for row in slices if row is not None],
        )
        # Not its own rows of usage: a row has the whole sum of an hour, with the time around a gap.
        self.recorder.ledger.fill_gap(
            self._gap, self._late_recorder.ledger, (self._first_at, end), batch
        )
        return batch
