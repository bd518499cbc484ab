"""The history of one hub, wired together: store, writer, recorder and queries."""

import time
from collections.abc import Callable
from pathlib import Path

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.shared_writes import WriteFence
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter


class Archive:
    """Opens the database when created.

    Close the `recorder` before the archive: it queues the checkpoints, which are then written.
    """

    def __init__(
        self,
        location: str | Path,
        retention: RetentionPolicy,
        fleet: FleetState,
        *,
        fence: WriteFence | None = None,
        create_recorder: Callable[[FleetState, HistoryWriter], HistoryRecorder] = HistoryRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = open_history(location, fence=fence)
        self._writer = HistoryWriter(self._store, retention, clock=clock, fence=fence)
        self.recorder = create_recorder(fleet, self._writer)
        self.queries = HistoryService(
            self.recorder, self._store, self._writer, retention, clock=clock
        )

    @property
    def write_error(self) -> str | None:
        """Why the history cannot be written now; `None` while it can."""
        return self._writer.last_error if self._writer.failures else None

    def close(self) -> None:
        """Write what is queued and close the database."""
        self._writer.close()
        self._store.close()
