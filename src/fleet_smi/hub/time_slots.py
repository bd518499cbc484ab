"""Work on many nodes, spread over turns: all at once would hold up the reports that come."""

from collections.abc import Collection

_FEW = 100


class TimeSlots:
    """Gives every node one turn of `count`; a few nodes have it together.

    No more than `most` go at once: of those who wait in a line, the first.
    """

    def __init__(self, slot_count: int, max_per_slot: int | None = None) -> None:
        self._count = slot_count
        self._most = max_per_slot
        self._turn = 0

    def due(self, pending: Collection[str]) -> list[str]:
        """Whose turn it is now, of those who wait for theirs."""
        self._turn = (self._turn + 1) % self._count
        if len(pending) > _FEW:
            due = [one for one in pending if hash(one) % self._count == self._turn]
            return due[: self._most]
        return [] if self._turn else list(pending)
