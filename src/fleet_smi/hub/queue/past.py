"""What the queue knows of the past: everybody's use and how long jobs took, read now and then."""

import logging
import time

from fleet_smi.errors import FleetError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.model.queue.estimate import PastJobs
from fleet_smi.model.queue.use import LOOKBACK_SECONDS, PastUse, decayed_hours

logger = logging.getLogger(__name__)
_USE_SECONDS, _JOBS_SECONDS = 60.0, 600.0
_JOBS_LOOKBACK_SECONDS = 60 * 86_400.0
_DAY_SECONDS = 86_400.0
_MAX_JOBS = 20_000


class QueuePast:
    """Reads the history; without one, or while it cannot be read, what was known before stays."""

    def __init__(self, history: HistoryService | None) -> None:
        self._history = history
        self.use: PastUse | None = None
        """The use of everybody; `None` where there is no history."""
        self.jobs = PastJobs(())
        """How long jobs took."""
        self._use_until = self._jobs_until = 0.0
        self._failures = FailureLog(logger, "queue history")

    async def refresh(self, now: float) -> None:
        """Read what is older than a minute, or ten for past jobs."""
        try:
            await self._read_use(now)
            await self.refresh_jobs(now)
        except FleetError as error:
            self._failures.record_failure(error)
        else:
            self._failures.record_success()

    async def refresh_jobs(self, now: float) -> None:
        """Read how long jobs took, if that was not done recently."""
        if self._history is not None and time.monotonic() >= self._jobs_until:
            self._jobs_until = time.monotonic() + _JOBS_SECONDS
            self.jobs = PastJobs(
                await self._history.durations(now - _JOBS_LOOKBACK_SECONDS, _MAX_JOBS)
            )

    async def _read_use(self, now: float) -> None:
        if self._history is not None and time.monotonic() >= self._use_until:
            self._use_until = time.monotonic() + _USE_SECONDS
            found = await self._history.usages(now - LOOKBACK_SECONDS, now, "user", daily=True)
            first = found.start - found.start % _DAY_SECONDS
            hours = {row.name: decayed_hours(row.daily, first, now) for row in found.rows}
            self.use = PastUse(hours, now)
