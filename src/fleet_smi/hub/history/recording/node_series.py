"""Series of one node: buffers its samples and schedules their rollup into rows."""

from collections.abc import Iterable
from math import inf
from zlib import crc32

from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.buffer import SampleBuffer
from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.rollup import Rollup, RollupTask, min_rollup_seconds, roll_up
from fleet_smi.hub.history.series.series_row import SeriesRow

_MINUTE = GRAINS[1]
_MAX_ROLLUP_MINUTES = 5
_DEFAULT_INTERVAL_SECONDS = 300.0  # of a node that does not report its interval
_CRC_RANGE = 1 << 32


class NodeSeries:
    """The samples of one node that are not in rows yet.

    Each holds until the next one; the last one for `holds_seconds`, the reporting interval of
    the node. They are to be rolled up at `rollup_due`.
    """

    __slots__ = ("_node_id", "_rollup", "_stagger", "buffer", "holds_seconds", "rollup_due")

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self._rollup = Rollup(node_id)
        # A checksum, because `hash` gives other values in every process.
        self._stagger = crc32(node_id.encode()) / _CRC_RANGE
        self.buffer = SampleBuffer()
        self.holds_seconds = _DEFAULT_INTERVAL_SECONDS
        self.rollup_due = inf

    def set_interval(self, seconds: float | None) -> None:
        """Set the reporting interval of the node; `None` or an invalid one gives the default."""
        # The comparison is false for NaN as well.
        if seconds is not None and seconds > 0:
            self.holds_seconds = seconds
        else:
            self.holds_seconds = _DEFAULT_INTERVAL_SECONDS

    def schedule_rollup(self, last_report_at: float, min_spacing_seconds: float) -> None:
        """Set the time of the next rollup: one every 1 to 5 minutes, staggered across nodes."""
        # One minute per second between samples makes about 60 samples per rollup.
        minutes = round(max(self.holds_seconds, min_spacing_seconds))
        period = min(max(1, minutes), _MAX_ROLLUP_MINUTES) * _MINUTE
        phase = self._stagger * period
        self.rollup_due = phase + ((last_report_at - phase) // period + 1) * period

    def rollup_task(self, end: float) -> RollupTask:
        """The task to roll up the buffered samples up to `end`."""
        return RollupTask(self._rollup, self.buffer, end, self.holds_seconds)

    def roll_up(self, end: float, batch: WriteBatch) -> None:
        """Roll up the samples of this node alone, and add the finished rows to a batch."""
        batch.series += roll_up([self.rollup_task(end)])

    def add_gap(self, start: float, end: float, batch: WriteBatch) -> None:
        """Record that nothing is known between two times."""
        self.buffer.add_unknown(start)
        grain = min_rollup_seconds(self.holds_seconds)
        grain_end = -(-start // grain) * grain
        # Within the same grain the samples before and after the gap share a row.
        if end >= grain_end:
            self.roll_up(grain_end, batch)
            self.buffer.clear()

    def partial_rows(self, end: float) -> list[SeriesRow]:
        """The unfinished rows up to `end`; finished ones with the same keys replace them later."""
        return self._rollup.partial_rows(self.buffer, end, self.holds_seconds)

    def row_at(self, at: float) -> SeriesRow | None:
        """The figures that hold at a time, as a row; `None` where they are not buffered."""
        return self._rollup.row_at(self.buffer, at)

    def resume_rollup(self, rows: Iterable[SeriesRow]) -> None:
        """Resume the rollup after a restart, from the stored parts of unfinished coarser rows."""
        self._rollup = Rollup(self._node_id, rows, self.buffer.since)

    def clear(self) -> None:
        """Drop all samples and the unfinished rollup."""
        self._rollup = Rollup(self._node_id)
        self.buffer.clear()
