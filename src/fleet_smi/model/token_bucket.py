"""Token bucket: a rate limit per key that allows a burst (GCRA, one number per bucket)."""

from collections import OrderedDict
from collections.abc import Iterable


class TokenBucket:
    """A bucket of `burst` tokens per key, refilled steadily; the caller passes in the time."""

    def __init__(
        self, *, burst: float = 10, refill_seconds: float = 6.0, max_keys: int = 4096
    ) -> None:
        self._burst = burst
        self._max_keys = max_keys
        self._refill_seconds = refill_seconds
        # When each bucket will be full again, from which the tokens in it now can be computed. The
        # key used last is at the end (LRU), so that a flood of keys drops the oldest.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def acquire(self, key: str, now: float) -> float:
        """Take one token and return 0; without one left, return the seconds to wait for it."""
        wait_seconds = self.seconds_until(key, 1.0, now)
        # A refused attempt is not recorded: retrying too early does not lengthen the wait.
        if wait_seconds > 0:
            return wait_seconds
        self.spend(key, 1.0, now)
        return 0.0

    def seconds_until(self, key: str, tokens: float, now: float) -> float:
        """Return how long to wait until that many tokens are available."""
        full_at = max(now, self._full_at.get(key, now)) + tokens * self._refill_seconds
        return max(0.0, full_at - now - self._burst * self._refill_seconds)

    def spend(self, key: str, tokens: float, now: float) -> None:
        """Take that many tokens, even if fewer are available."""
        full_at = max(now, self._full_at.get(key, now)) + tokens * self._refill_seconds
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._max_keys:
            self._full_at.popitem(last=False)

    def overdraw(self, key: str, tokens: float, now: float) -> float:
        """Take that many tokens and return 0 unless the bucket is empty; else the time to wait."""
        buckets, refill_seconds = self._full_at, self._refill_seconds
        full_at = buckets.get(key)
        if full_at is None:
            self.spend(key, tokens, now)
            return 0.0
        wait_seconds = full_at - now - self._burst * refill_seconds
        if wait_seconds > 0:
            return wait_seconds
        # As `spend` does, without a call: this runs for every report.
        buckets[key] = (full_at if full_at > now else now) + tokens * refill_seconds
        buckets.move_to_end(key)
        return 0.0

    def overdraw_all(
        self, charges: Iterable[tuple[str | None, float]], now: float
    ) -> dict[int, float]:
        """Like `overdraw`, for keys with their tokens; return the times to wait by position.

        What has no key is not limited.
        """
        buckets, refill_seconds, waits = self._full_at, self._refill_seconds, dict[int, float]()
        get, move_to_end = buckets.get, buckets.move_to_end
        for position, (key, tokens) in enumerate(charges):
            if key is None:
                continue
            full_at = get(key)
            # Nearly always: a bucket that is known, and full by now.
            if full_at is not None and full_at <= now:
                buckets[key] = now + tokens * refill_seconds
                move_to_end(key)
            elif wait_seconds := self.overdraw(key, tokens, now):
                waits[position] = wait_seconds
        return waits

    def refund(self, key: str) -> None:
        """Give back the token that was taken last."""
        if key in self._full_at:
            self._full_at[key] -= self._refill_seconds
