"""How often one address may fail to say who it is; good credentials are never held up."""

import math
from collections.abc import Callable

from fleet_smi.model.attempts import Attempts
from fleet_smi.server.addresses import neighbourhood
from fleet_smi.server.refusal import Refusal


class Failures:
    """Some failures for each address, and one more every few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._attempts = Attempts()

    def failed(self, address: str) -> Refusal | None:
        """Count one failure; a refusal once there were too many."""
        wait_seconds = self._attempts.wait_seconds(neighbourhood(address), self._clock())
        if not wait_seconds:
            return None
        return Refusal(
            429,
            "too_many_failures",
            "too many failed attempts from this address: wait and try again",
            math.ceil(wait_seconds),
        )

    def forgive(self, address: str) -> None:
        """Take back what was counted: it was none."""
        self._attempts.give_back(neighbourhood(address))
