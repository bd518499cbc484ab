"""Log of repeated failures: each is logged once, then counted, and summed up on recovery."""

import logging
import time
from collections.abc import Callable
from math import inf

from fleet_smi.model.safe_text import sanitize_text

_MAX_MESSAGES = 16
_MAX_LENGTH = 500
_MAX_SUBJECTS = 10_000
# A subject that fails and recovers in turns is logged again only after so long.
_REPEAT_SECONDS = 60.0


class FailureLog:
    """The failures of one subject, as log lines of `key=value`."""

    def __init__(
        self,
        logger: logging.Logger,
        subject: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._subject = subject
        self._clock = clock
        # When each message was logged last.
        self._logged: dict[str, float] = {}
        self._recovered_at = -inf
        self._is_logged = False
        self._count = 0
        self._since = 0.0

    def record_failure(self, error: Exception) -> None:
        """Log a failure, unless the same message was logged since the last success or just now."""
        now = self._clock()
        if not self._count:
            self._since = now
        self._count += 1
        message = sanitize_text(str(error), _MAX_LENGTH).replace('"', "'")
        if self._can_log(message, now):
            self._logged[message] = now
            self._is_logged = True
            kind = type(error).__name__
            self._logger.warning('subject=%s fault=%s error="%s"', self._subject, kind, message)

    def record_success(self) -> None:
        """Log the recovery, with the number of failures before it, if any of them was logged."""
        if not self._count:
            return
        now = self._clock()
        if self._is_logged:
            # A warning too, so that it is visible wherever the failure was.
            self._logger.warning(
                "subject=%s recovered=true failures=%d seconds=%.0f",
                self._subject,
                self._count,
                now - self._since,
            )
        self._logged = {
            message: at for message, at in self._logged.items() if now < at + _REPEAT_SECONDS
        }
        self._recovered_at = now
        self._is_logged = False
        self._count = 0

    def _can_log(self, message: str, now: float) -> bool:
        logged_at = self._logged.get(message)
        if logged_at is None:
            # Bounded: messages that differ each time (ports, counters) must not fill log or memory.
            return len(self._logged) < _MAX_MESSAGES
        return logged_at <= self._recovered_at and now >= logged_at + _REPEAT_SECONDS


class FailureLogs:
    """The failures of many subjects; a bounded number, as their names may come from outside."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._logs: dict[str, FailureLog] = {}

    def __bool__(self) -> bool:
        return bool(self._logs)

    def record_failure(self, subject: str, error: Exception) -> None:
        """Log a failure of a subject."""
        if len(self._logs) >= _MAX_SUBJECTS:
            self._logs.clear()
        self._logs.setdefault(subject, FailureLog(self._logger, subject)).record_failure(error)

    def record_success(self, subject: str) -> None:
        """Log the recovery of a subject that has failed."""
        # Its log stays: a sender of good and bad reports in turns must not fill the whole log.
        if (log := self._logs.get(subject)) is not None:
            log.record_success()
