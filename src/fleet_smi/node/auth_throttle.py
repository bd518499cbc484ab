"""Login throttle of an agent: a rate limit on wrong passwords per address, and their log lines."""

import hmac
import logging
import math
import threading
import time

from fleet_smi.errors import Refused
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.token_bucket import TokenBucket

logger = logging.getLogger(__name__)
_MAX_LOGGED_ADDRESSES = 16


class AuthThrottle:
    """Checks passwords one at a time and logs an address once, then counts its failures.

    Without the lock, many connections at the same time would get more attempts than one.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._attempts = TokenBucket()
        self._failures: dict[str, FailureLog] = {}
        self._lock = threading.Lock()

    def check_password(self, address: str, given: str, expected: str) -> int | None:
        """Return `None` for the right password, else the seconds until the next attempt."""
        with self._lock:
            wait_seconds = self._attempts.acquire(address, time.monotonic())
            # While an address is throttled, the right password is rejected too: otherwise the limit
            # would not slow down guessing. A success costs no attempt.
            if not wait_seconds and constant_time_equal(given, expected):
                self._attempts.refund(address)
                if address in self._failures:
                    self._failures.pop(address).record_success()
                return None
            self._log_failure(address)
            return math.ceil(wait_seconds)

    def _log_failure(self, address: str) -> None:
        # Bounded: an attacker with many addresses must not fill the memory or the log.
        if address not in self._failures and len(self._failures) < _MAX_LOGGED_ADDRESSES:
            self._failures[address] = FailureLog(logger, self._subject)
        if address in self._failures:
            self._failures[address].record_failure(Refused(f"a wrong password from {address}"))


def constant_time_equal(given: str, expected: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on how much of them agrees."""
    # Encoded: `compare_digest` raises for text that is not ASCII.
    return hmac.compare_digest(given.encode(), expected.encode())
