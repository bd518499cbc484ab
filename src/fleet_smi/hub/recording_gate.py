"""Whether the history can take reports: a full one takes none until it has room for many."""

import logging

from fleet_smi.hub.history.recording.recorder import HistoryRecorder

logger = logging.getLogger(__name__)


class RecordingGate:
    """Closed by a history that is full, and open without any history."""

    def __init__(self, history: HistoryRecorder | None) -> None:
        self._history = history
        self._is_closed = False

    def is_open(self) -> bool:
        """Return whether the history can take a report."""
        if not self._is_closed and self._history is not None and self._history.is_full:
            self._is_closed = True
            logger.warning("the history is full: agents buffer what it cannot record")
        return not self._is_closed

    def reopen(self) -> bool:
        """Return whether it was closed and is open now, as there is room: agents have to resend.

        Not to be called while a report is applied: its second half would be recorded without the
        first.
        """
        # Room for more than the next few reports.
        if not self._is_closed or (self._history is not None and self._history.is_behind):
            return False
        self._is_closed = False
        logger.warning("the history is recorded again: agents resend the rest")
        return True
