"""Faults of history recording: which nodes failed when, shown until they are recorded again."""

from collections.abc import Collection, Iterable
from math import inf

from fleet_smi.fleet.node_faults import NodeFaults
from fleet_smi.hub.history.recording.rows import RejectedRow

# A node whose recorder failed gets a new one; its fault is shown for at least this long.
_SHOWN_SECONDS = 60.0


class RecordingFaults:
    """The nodes whose recorders failed, with the time of the last failure."""

    def __init__(self, faults: NodeFaults) -> None:
        self._faults = faults
        self._now = -inf
        self._failed_at: dict[str, float] = {}

    def record(self, node_id: str, error: Exception) -> None:
        """Record a failure of the recorder of a node."""
        self._failed_at[node_id] = self._now
        self._faults.record("history", node_id, error)

    def record_rejected(self, rows: Iterable[RejectedRow]) -> None:
        """Record the rows of nodes that the database rejects."""
        for row in rows:
            if row.node_id is not None:
                self.record(row.node_id, row.error)

    def clear_recovered(self, now: float, recorded: Collection[str]) -> None:
        """Clear the faults of nodes that have been recorded again for a while."""
        self._now = now
        for node_id, at in list(self._failed_at.items()):
            if at == -inf:  # it failed while it was restored, when no time was known yet
                self._failed_at[node_id] = now
            elif node_id in recorded and not at <= now < at + _SHOWN_SECONDS:
                del self._failed_at[node_id]
                self._faults.clear("history", node_id)
