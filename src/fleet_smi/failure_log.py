"""A fault that repeats is logged once, then counted, and summed up when it ends."""

import logging
import time

from fleet_smi.model.safe_text import sanitize_text

_MOST_KINDS = 16
_MOST_WORDS = 500


class FailureLog:
    """The faults of one subject, as lines of `key=value`."""

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self._logger = logger
        self._subject = subject
        self._told: set[str] = set()
        self._count = 0
        self._since = 0.0

    def record_failure(self, error: Exception) -> None:
        """It failed; say so unless the same was said since it last went well."""
        if not self._count:
            self._since = time.monotonic()
        self._count += 1
        words = sanitize_text(str(error), _MOST_WORDS).replace('"', "'")
        if words not in self._told and len(self._told) < _MOST_KINDS:
            self._told.add(words)
            kind = type(error).__name__
            self._logger.warning('subject=%s fault=%s error="%s"', self._subject, kind, words)

    def record_success(self) -> None:
        """It went well; say how often it had failed before, if it had."""
        if self._count:
            seconds = time.monotonic() - self._since
            self._logger.warning(
                "subject=%s recovered=true failures=%d seconds=%.0f",
                self._subject,
                self._count,
                seconds,
            )
        self._told.clear()
        self._count = 0
