"""The clock that all hubs of a cluster share: that of the PostgreSQL server.

A node that goes from one hub to another continues its history there. By two clocks that differ,
time would be counted twice, or a part of it would be missing.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from fleet_smi.errors import StateError
from fleet_smi.hub.cluster.state_database import SharedState, read_time
from fleet_smi.hub.database import read_transaction
from fleet_smi.hub.elapsed_clock import elapsed_seconds
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.model.units import format_duration

logger = logging.getLogger(__name__)
_INTERVAL_SECONDS = 5.0
# A slower answer says too little about the time.
_MAX_ROUND_TRIP_SECONDS = 1.0
_TOLERANCE_SECONDS = 0.1
_MAX_DIFFERENCE_SECONDS = 5.0


class SharedClock:
    """Passes evenly between two measurements: setting the clock of this machine changes nothing.

    While PostgreSQL is away it goes on as before.
    """

    def __init__(
        self, state: SharedState, elapsed_clock: Callable[[], float] = elapsed_seconds
    ) -> None:
        """Create it from a first measurement. Blocking; raises `StateError`."""
        self._engine = state.engine
        self._elapsed_clock = elapsed_clock
        self._offset = 0.0
        self._offset, _ = self._measure()

    def __call__(self) -> float:
        """The time of the PostgreSQL server, in seconds since 1970."""
        return self._elapsed_clock() + self._offset

    @property
    def problem(self) -> str | None:
        """By how much the clock of this machine is wrong, as text; `None` if it is not."""
        difference = time.time() - self()
        if abs(difference) <= _MAX_DIFFERENCE_SECONDS:
            return None
        return (
            f"the clock of this machine differs from that of PostgreSQL by "
            f"{format_duration(abs(difference))}; the hub uses that of PostgreSQL"
        )

    async def run(self) -> None:
        """Measure again and again, until cancelled."""
        async for _ in ticks(_INTERVAL_SECONDS):
            await asyncio.to_thread(self.correct)

    def correct(self) -> None:
        """Measure, and set this clock where it is wrong. Blocking."""
        try:
            offset, round_trip = self._measure()
        except StateError:
            return  # its own problem, which others report
        error = offset - self._offset
        if round_trip < _MAX_ROUND_TRIP_SECONDS and abs(error) > _TOLERANCE_SECONDS + round_trip:
            logger.warning("the clock of PostgreSQL was set by %s", format_duration(abs(error)))
            self._offset = offset

    def _measure(self) -> tuple[float, float]:
        """How far the server is ahead of the elapsed time, and how long it took to ask it."""
        with read_transaction(self._engine) as connection:
            read_time(connection)  # connects, which takes longer
            began = self._elapsed_clock()
            now = read_time(connection)
            ended = self._elapsed_clock()
        return now - (began + ended) / 2, ended - began
