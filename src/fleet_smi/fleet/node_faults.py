"""Faults of the hub itself in what belongs to single nodes: logged once, and shown at the node.

An unexpected exception while one node is handled must not stop the handling of the others. Its
part is set aside: the caller catches the exception, records it here and goes on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fleet_smi.failure_log import FailureLog

Room = Literal[
    "report", "view", "history", "stream", "checkpoint", "restore", "remote_write", "otlp"
]
"""The part of the hub in which a fault occurred."""
_EFFECTS: dict[Room, str] = {
    "report": "its report could not be applied",
    "view": "it cannot be shown",
    "history": "part of its history is not recorded",
    "stream": "its changes are not sent to the page",
    "checkpoint": "its state is not saved",
    "restore": "its saved state could not be restored",
    "remote_write": "its figures are not sent to the long-term store",
    "otlp": "its figures are not sent to the OpenTelemetry receiver",
}
# Both bounded: ids of nodes and messages of errors come from outside.
_MAX_FAULTS, _MAX_TRACEBACKS = 10_000, 100
_Key = tuple[str | None, Room]


class NodeFaults:
    """The present faults by node and room; `None` stands for the hub as a whole.

    `on_change` is called with the id of a node whose faults have changed.
    """

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self.total = 0
        """The number of faults since the start, repeated ones included."""
        self._on_change = on_change
        self._messages: dict[_Key, str] = {}
        self._logs: dict[_Key, FailureLog] = {}
        self._logged_tracebacks: set[tuple[Room, str]] = set()

    def __len__(self) -> int:
        return len(self._messages)

    def record(self, room: Room, node_id: str | None, error: Exception) -> None:
        """Record that the part of a node was set aside, and log it unless that was done."""
        # Here, because commands load this file, too, and hardly ever have a fault to log.
        import logging

        from fleet_smi.failure_log import FailureLog

        logger = logging.getLogger(__name__)
        self.total += 1
        key = node_id, room
        if len(self._messages) >= _MAX_FAULTS and key not in self._messages:
            return
        # Only the kind of error: its text may quote what not every viewer may see.
        message = f"{_EFFECTS[room]} ({type(error).__name__}): see the log of the hub"
        changed = self._messages.get(key) != message
        self._messages[key] = message
        subject = room if node_id is None else f"{room}:{node_id}"
        self._logs.setdefault(key, FailureLog(logger, subject)).record_failure(error)
        # One for all nodes: a bug is rarely that of one node alone.
        kind = room, repr(error)
        if kind not in self._logged_tracebacks and len(self._logged_tracebacks) < _MAX_TRACEBACKS:
            self._logged_tracebacks.add(kind)
            logger.error("bug in %s", subject, exc_info=error)
        if changed and node_id is not None:
            self._on_change(node_id)

    @contextmanager
    def guard(self, room: Room) -> Iterator[None]:
        """Go on after a bug in one part of the hub: it is logged, and the other parts continue."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # no bug in these parts may end the hub
            self.record(room, None, error)
        else:
            if self:
                self.clear(room, None)

    def clear(self, room: Room, node_id: str | None) -> None:
        """Record that the part of a node works again."""
        key = node_id, room
        if self._messages.pop(key, None) is not None:
            self._logs.pop(key).record_success()
            if node_id is not None:
                self._on_change(node_id)

    def forget(self, node_id: str) -> None:
        """Forget the faults of a node that is removed."""
        for room in _EFFECTS:
            self._messages.pop((node_id, room), None)
            self._logs.pop((node_id, room), None)

    def has(self, room: Room, node_id: str | None) -> bool:
        """Whether there is such a fault."""
        return (node_id, room) in self._messages

    def message(self, node_id: str | None) -> str | None:
        """All faults of a node, or of the hub as a whole, as one text."""
        if not self._messages:
            return None
        keys: list[_Key] = [(node_id, room) for room in _EFFECTS]
        return "; ".join(self._messages[key] for key in keys if key in self._messages) or None
