"""Work on many nodes, spread over turns: all at once would hold up the reports that come."""

from collections.abc import Collection

_FEW = 100


class Turns:
    """Gives every node one turn of `count`; a few nodes have it together.

    No more than `most` go at once: of those who wait in a line, the first.
    """

    def __init__(self, count: int, most: int | None = None) -> None:
        self._count = count
        self._most = most
        self._turn = 0

    def due(self, waiting: Collection[str]) -> list[str]:
        """Whose turn it is now, of those who wait for theirs."""
        self._turn = (self._turn + 1) % self._count
        if len(waiting) > _FEW:
            due = [one for one in waiting if hash(one) % self._count == self._turn]
            return due[: self._most]
        return [] if self._turn else list(waiting)
