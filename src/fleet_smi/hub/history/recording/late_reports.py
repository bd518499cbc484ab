"""What came late of one node: it fills a gap in its book, and touches nothing else."""

from math import inf

from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub.history.recording.ledger import Ledger, TimeGap
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.codec import slice_row
from fleet_smi.model.verdict.thresholds import Thresholds

# A long gap is filled in parts: what is found out is held in memory until then.
_MOST_ROWS = 1000
# A report that is sent again is a moment off: at the edge of a gap it may seem to be before it.
_OFF_INTERVALS = 0.5


class LateReports:
    """The reports from within one gap of a node, in the order of their time.

    They were never judged, so they are judged here, on their own: by a `node` that may know
    those before them.
    """

    def __init__(
        self, recorder: NodeRecorder, gap: TimeGap, thresholds: Thresholds, node: NodeState
    ) -> None:
        self.recorder = recorder
        self._gap = gap
        self._settings = thresholds
        self._node = node
        self._book = NodeRecorder(
            recorder.node_id, thresholds, Ledger(recorder.node_id, successor=recorder.ledger)
        )
        self._batch = WriteBatch()
        self._came = False
        self._first = inf
        self._reported: list[str] = []

    @classmethod
    def for_change(
        cls,
        recorder: NodeRecorder,
        change: FleetChange,
        thresholds: Thresholds,
        previous: "LateReports | None" = None,
    ) -> "LateReports | None":
        """For the gap of a book that a report lies in; `None` where there is none.

        It goes on from the part that was filled `before` it.
        """
        at = change.at
        near = at + _OFF_INTERVALS * (change.snapshot.interval_seconds or 0.0)
        gaps = [gap for gap in recorder.ledger.gaps if gap[0] <= near and at < gap[1]]
        goes_on = previous is not None and previous._book.last_report_at <= at
        node = previous._node if previous is not None and goes_on else NodeState(recorder.node_id)
        return cls(recorder, gaps[0], thresholds, node) if gaps else None

    def pop_received(self) -> bool:
        """Whether something has come since this was last asked."""
        came, self._came = self._came, False
        return came

    def accepts(self, at: float) -> bool:
        """Whether a report of that moment is the next one here."""
        start, end = self._gap
        full = len(self._batch.series) >= _MOST_ROWS
        return not full and max(start, self._book.last_report_at) <= at < end

    def record(self, change: FleetChange) -> None:
        """Take one more report."""
        self._came = True
        if change.reported_uuids != self._reported:
            self._reported = change.reported_uuids
        at = max(change.at, self._gap[0])
        turns = self._node.update(change.snapshot, at, self._settings)
        judged = replace(
            change,
            at=at,
            transitions=turns,
            standings=self._node.standings,
            occupancy_changed=self._node.occupancy_changed,
            reported_uuids=self._reported,
        )
        if not self._book.try_buffer(judged):
            self._book.record(judged, self._batch)
        self._first = min(self._first, at)

    def finish(self, batch: WriteBatch, next_at: float = inf) -> None:
        """Put all that was found out into a batch; what comes next goes on from there."""
        goes_on = self._book.last_report_at <= next_at < self._gap[1]
        end = self._book.end_by(next_at if goes_on else self._gap[1], self._batch)
        batch.periods += self._batch.periods
        batch.occupancies += self._batch.occupancies
        batch.presence += self._batch.presence
        # Of the time of other rows something was known before.
        parts = [slice_row(row, *self._gap) for row in self._batch.series]
        batch.series += [part for part in parts if part is not None]
        self.recorder.ledger.fill_gap(self._gap, self._book.ledger, (self._first, end), batch)
