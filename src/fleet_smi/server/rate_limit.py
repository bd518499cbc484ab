"""Rate limit of failed authentication per client address; valid credentials are not limited."""

import math
from collections.abc import Callable

from fleet_smi.config.ip_addresses import rate_limit_key
from fleet_smi.model.token_bucket import TokenBucket
from fleet_smi.server.http_error import HttpError


class AuthRateLimiter:
    """A token bucket per address: a burst of failures, then one more every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = TokenBucket()

    def record_failure(self, address: str) -> HttpError | None:
        """Count one failure; return the error 429 if there were too many."""
        wait_seconds = self._buckets.acquire(rate_limit_key(address), self._clock())
        if not wait_seconds:
            return None
        return HttpError(
            429,
            "too_many_failures",
            "too many failed attempts from this address: wait and try again",
            math.ceil(wait_seconds),
        )

    def refund(self, address: str) -> None:
        """Undo one count: the attempt was successful."""
        self._buckets.refund(rate_limit_key(address))
