"""Passwords that are shown to an agent: how often one address may err, and what the log says."""

import hmac
import logging
import math
import threading
import time

from fleet_smi.errors import Refused
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.token_bucket import TokenBucket

logger = logging.getLogger(__name__)
_MOST_ADDRESSES = 16


class AuthThrottle:
    """One by one, or many at once would have more tries; who errs is logged once, then counted."""

    def __init__(self) -> None:
        self._attempts = TokenBucket()
        self._faults: dict[str, FailureLog] = {}
        self._lock = threading.Lock()

    def check_password(self, address: str, given: str, expected: str) -> int | None:
        """How long to wait before one more try: 0 at once; `None` for the right password."""
        with self._lock:
            wait_seconds = self._attempts.acquire(address, time.monotonic())
            if not wait_seconds and constant_time_equal(given, expected):
                self._attempts.refund(address)
                if address in self._faults:
                    self._faults.pop(address).record_success()
                return None
            self._note(address)
            return math.ceil(wait_seconds)

    def _note(self, address: str) -> None:
        if address not in self._faults and len(self._faults) < _MOST_ADDRESSES:
            self._faults[address] = FailureLog(logger, "get-status")
        if address in self._faults:
            self._faults[address].record_failure(Refused(f"a wrong password from {address}"))


def constant_time_equal(given: str, expected: str) -> bool:
    """Whether they are equal, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode(), expected.encode())
