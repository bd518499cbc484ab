"""Memory of report bodies that are arriving: a limit over all senders together.

The budget of one credential bounds what one node can send. A few dozen that send large reports at
the same time, and never finish them, could still fill the memory.
"""

from fleet_smi.model.units import MIB

MAX_BODY_MEMORY = 256 * MIB


class BodyMemory:
    """Counts the bytes of bodies that are announced or in memory."""

    def __init__(self, max_bytes: int = MAX_BODY_MEMORY) -> None:
        self._max_bytes = max_bytes
        self.reserved = 0

    def reserve(self, size: int) -> bool:
        """Reserve a number of bytes; return false, and reserve nothing, if there is no room."""
        if self.reserved + size > self._max_bytes:
            return False
        self.reserved += size
        return True

    def release(self, size: int) -> None:
        """Give back what was reserved."""
        self.reserved -= size
