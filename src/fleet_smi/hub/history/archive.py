"""The history of one hub put together: its database, who writes there and who asks."""

from pathlib import Path

from fleet_smi.hub.fleet import Fleet
from fleet_smi.hub.history.answers import Answers
from fleet_smi.hub.history.history import History
from fleet_smi.hub.history.retention import Keep
from fleet_smi.hub.history.store import open_history
from fleet_smi.hub.history.writer import Writer


class Archive:
    """Open from the beginning; `history` must have been closed before this is."""

    def __init__(self, where: str | Path, keep: Keep, fleet: Fleet) -> None:
        self._store = open_history(where)
        self._writer = Writer(self._store, keep)
        self.history = History(fleet, self._writer)
        self.answers = Answers(self.history, self._store, self._writer, keep)

    def close(self) -> None:
        """Write down what is left, and let go of the database."""
        self._writer.close()
        self._store.close()
