"""How often one address may fail to say who it is; good credentials are never held up."""

import math
from collections import OrderedDict
from collections.abc import Callable

from fleet_smi.server.addresses import neighbourhood
from fleet_smi.server.refusal import Refusal

_MOST_ADDRESSES = 4096


class Failures:
    """A bucket of `burst` failures for each address, and one more every `every_seconds`."""

    def __init__(
        self, clock: Callable[[], float], *, burst: int = 10, every_seconds: float = 6.0
    ) -> None:
        self._clock = clock
        self._burst = burst
        self._every_seconds = every_seconds
        # When each bucket will be full again; the address that failed last stands last.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def failed(self, address: str) -> Refusal | None:
        """Count one failure; a refusal once there were too many."""
        who, now = neighbourhood(address), self._clock()
        full_at = max(now, self._full_at.get(who, now)) + self._every_seconds
        wait_seconds = full_at - now - self._burst * self._every_seconds
        if wait_seconds > 0:
            return Refusal(
                429,
                "too_many_failures",
                "too many failed attempts from this address: wait and try again",
                math.ceil(wait_seconds),
            )
        self._full_at[who] = full_at
        self._full_at.move_to_end(who)
        if len(self._full_at) > _MOST_ADDRESSES:
            self._full_at.popitem(last=False)
        return None

    def forgive(self, address: str) -> None:
        """Take back what was counted: it was none."""
        who = neighbourhood(address)
        if who in self._full_at:
            self._full_at[who] -= self._every_seconds
