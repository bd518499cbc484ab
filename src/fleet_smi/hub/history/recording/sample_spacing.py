"""Sample spacing: thins the samples of a large fleet by its rate of reports."""

from math import inf

# Above this rate the figures of some reports are skipped: packing each would double the cost.
_MAX_SAMPLES_PER_SECOND = 200
_MAX_SPACING_SECONDS = 10.0


class SampleSpacing:
    """The least time between two samples of a node, in `seconds`; 0.0 takes every report.

    `reports` counts those that have come since the last update.
    """

    __slots__ = ("_updated_at", "reports", "seconds")

    def __init__(self) -> None:
        self.reports = 0
        self.seconds = 0.0
        self._updated_at = inf

    def update(self, now: float) -> None:
        """Set the spacing by the rate of reports since the last update."""
        elapsed, rate = now - self._updated_at, 0.0
        if elapsed > 0.0:
            rate = self.reports / elapsed
        self.reports, self._updated_at = 0, now
        # With nodes that report every second: 400 of them at a spacing of 2 s are 200 samples.
        spacing = rate / _MAX_SAMPLES_PER_SECOND
        self.seconds = min(spacing, _MAX_SPACING_SECONDS) if spacing > 1.0 else 0.0
