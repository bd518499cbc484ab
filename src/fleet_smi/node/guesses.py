"""Passwords that are shown to an agent: how often one address may err, and what the log says."""

import hmac
import logging
import math
import threading
import time

from fleet_smi.errors import Refused
from fleet_smi.faults import Faults
from fleet_smi.model.attempts import Attempts

logger = logging.getLogger(__name__)
_MOST_ADDRESSES = 16


class Guesses:
    """One by one, or many at once would have more tries; who errs is logged once, then counted."""

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._faults: dict[str, Faults] = {}
        self._lock = threading.Lock()

    def wait_seconds(self, address: str, shown: str, password: str) -> int | None:
        """How long to wait before one more try: 0 at once; `None` for the right password."""
        with self._lock:
            wait_seconds = self._attempts.wait_seconds(address, time.monotonic())
            if not wait_seconds and same(shown, password):
                self._attempts.give_back(address)
                if address in self._faults:
                    self._faults.pop(address).went_well()
                return None
            self._note(address)
            return math.ceil(wait_seconds)

    def _note(self, address: str) -> None:
        if address not in self._faults and len(self._faults) < _MOST_ADDRESSES:
            self._faults[address] = Faults(logger, "get-status")
        if address in self._faults:
            self._faults[address].failed(Refused(f"a wrong password from {address}"))


def same(shown: str, right: str) -> bool:
    """Whether they are equal, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(shown.encode(), right.encode())
