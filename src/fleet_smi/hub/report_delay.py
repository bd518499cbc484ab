"""How late reports are because of the hub itself: that time is not the silence of their nodes."""

import time
from collections.abc import Callable
from math import ceil

# Reports come at least this often from nearly all nodes: by then a delay has had its effect.
_REMEMBER_SECONDS = 30.0
_MIN_DELAY_SECONDS = 0.5
# Longer than any hub should take: a node that has gone must be noticed in the end.
_MAX_DELAY_SECONDS = 120.0


class ReportDelay:
    """The longest recent delay between the arrival of a report and its handling."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._longest = 0.0
        self._expires_at = 0.0

    def record(self, seconds: float) -> None:
        """Record that something waited this long for the event loop, or in the queue of reports."""
        if seconds < _MIN_DELAY_SECONDS:
            return
        now, seconds = self._clock(), min(seconds, _MAX_DELAY_SECONDS)
        if seconds >= self._longest or now >= self._expires_at:
            self._longest = seconds
            self._expires_at = now + max(_REMEMBER_SECONDS, seconds)

    @property
    def seconds(self) -> float:
        """The delay to allow for now, in whole seconds; 0 unless the hub was busy."""
        return float(ceil(self._longest)) if self._clock() < self._expires_at else 0.0
