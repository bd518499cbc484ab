"""Time slots: spread work on many nodes over time, so that no burst delays incoming reports."""

from collections.abc import Collection
from itertools import islice

_SMALL_FLEET = 100


class TimeSlots:
    """Assigns every node to one of `slot_count` slots; a small fleet shares one.

    Of a larger fleet at most `max_per_slot` nodes are due per slot, the longest waiting first.
    """

    def __init__(self, slot_count: int, max_per_slot: int | None = None) -> None:
        self._count = slot_count
        self.max_per_slot = max_per_slot
        self._current = 0

    def due(self, pending: Collection[str]) -> list[str]:
        """Advance to the next slot; return the pending nodes that are due in it."""
        self._current = (self._current + 1) % self._count
        if len(pending) > _SMALL_FLEET:
            # By hash: a node has the same slot however many others are pending.
            count, current = self._count, self._current
            due = (node_id for node_id in pending if hash(node_id) % count == current)
            return list(islice(due, self.max_per_slot))
        return [] if self._current else list(pending)
