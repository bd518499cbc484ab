"""How often somebody may try: a few times at once, and once more every few seconds."""

from collections import OrderedDict

_MOST_NAMES = 4096


class TokenBucket:
    """A bucket of `burst` tries for each name; the caller brings the time."""

    def __init__(self, *, burst: int = 10, refill_seconds: float = 6.0) -> None:
        self._burst = burst
        self._every_seconds = refill_seconds
        # When each bucket will be full again; who tried last stands last.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def acquire(self, key: str, now: float) -> float:
        """Use up one try; how long to wait for one where there is none left, else 0."""
        full_at = max(now, self._full_at.get(key, now)) + self._every_seconds
        wait_seconds = full_at - now - self._burst * self._every_seconds
        if wait_seconds > 0:
            return wait_seconds
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > _MOST_NAMES:
            self._full_at.popitem(last=False)
        return 0.0

    def refund(self, key: str) -> None:
        """It was no such try."""
        if key in self._full_at:
            self._full_at[key] -= self._every_seconds
