"""Activity of a server: whether anything but reports was handled since the last check."""


class RequestActivity:
    """Counts the requests of the application, and the connections that are closed.

    Reports of the fast path are neither: they leave no reference cycles behind, which the others
    do (`hub/garbage_collection.py`).
    """

    def __init__(self) -> None:
        self.begun = self.ended = self.closed_connections = 0
        self._checked = (0, 0, 0)

    def was_idle(self, open_streams: int) -> bool:
        """Whether nothing was begun, ended or under way since the last call, except streams."""
        checked, self._checked = self._checked, (self.begun, self.ended, self.closed_connections)
        return checked == self._checked and self.begun - self.ended <= open_streams
