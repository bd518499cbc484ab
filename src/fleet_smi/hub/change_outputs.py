"""Outputs of an applied report: its change goes to the stream, the history and the checkpoints."""

from collections.abc import Callable

from fleet_smi.fleet.closed_changes import ClosedChanges
from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.hub.checkpointing import Checkpointer
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.stream import Stream


class ChangeOutputs:
    """Passes on what the reports of one fleet change."""

    def __init__(
        self,
        fleet: FleetState,
        stream: Stream,
        history: HistoryRecorder | None,
        checkpointer: Checkpointer,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._stream = stream
        self._history = history
        self._checkpointer = checkpointer
        self._clock = clock
        self._closed = ClosedChanges()

    @property
    def has_closed(self) -> bool:
        """Whether an administrator keeps new work from a device, or did: it is recorded as that."""
        return self._fleet.views.has_closings or self._closed.has_any

    def pass_on(self, change: FleetChange | None, *, is_recorded: bool) -> None:
        """Pass on the change of a report; `None` is that of one that changed nothing."""
        for node_id in self._fleet.routes.take_joined():
            if self._history is not None:
                self._history.remove_node(node_id, self._clock())
            self._checkpointer.invalidate(node_id)
        if change is not None:
            if change.transitions:
                self._stream.prioritize(change.node_id)
            if self._history is not None and is_recorded:
                closings = self._fleet.views.closings_of(change.node_id)
                self._history.record(self._closed.apply(change, closings))
            # It fills a gap below a sequence number that may be called durable already.
            if change.is_late:
                self._checkpointer.invalidate(change.node_id)
