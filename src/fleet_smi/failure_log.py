"""Log of repeated failures: each is logged once, then counted, and summed up on recovery."""

import logging
import time

from fleet_smi.model.safe_text import sanitize_text

_MAX_MESSAGES = 16
_MAX_LENGTH = 500


class FailureLog:
    """The failures of one subject, as log lines of `key=value`."""

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self._logger = logger
        self._subject = subject
        self._logged: set[str] = set()
        self._count = 0
        self._since = 0.0

    def record_failure(self, error: Exception) -> None:
        """Log a failure, unless the same message was logged since the last success."""
        if not self._count:
            self._since = time.monotonic()
        self._count += 1
        message = sanitize_text(str(error), _MAX_LENGTH).replace('"', "'")
        # Bounded: messages that differ each time (ports, counters) must not fill log or memory.
        if message not in self._logged and len(self._logged) < _MAX_MESSAGES:
            self._logged.add(message)
            kind = type(error).__name__
            self._logger.warning('subject=%s fault=%s error="%s"', self._subject, kind, message)

    def record_success(self) -> None:
        """Log the recovery, with the number of failures before it, if there were any."""
        if self._count:
            seconds = time.monotonic() - self._since
            # A warning too, so that it is visible wherever the failure was.
            self._logger.warning(
                "subject=%s recovered=true failures=%d seconds=%.0f",
                self._subject,
                self._count,
                seconds,
            )
        self._logged.clear()
        self._count = 0
