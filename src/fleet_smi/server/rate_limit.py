"""How often one address may fail to say who it is; good credentials are never held up."""

import math
from collections.abc import Callable

from fleet_smi.config.ip_addresses import rate_limit_key
from fleet_smi.model.token_bucket import TokenBucket
from fleet_smi.server.http_error import HttpError


class AuthRateLimiter:
    """Some failures for each address, and one more every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._attempts = TokenBucket()

    def record_failure(self, address: str) -> HttpError | None:
        """Count one failure; a refusal once there were too many."""
        wait_seconds = self._attempts.acquire(rate_limit_key(address), self._clock())
        if not wait_seconds:
            return None
        return HttpError(
            429,
            "too_many_failures",
            "too many failed attempts from this address: wait and try again",
            math.ceil(wait_seconds),
        )

    def refund(self, address: str) -> None:
        """Take back what was counted: it was none."""
        self._attempts.refund(rate_limit_key(address))
