"""Clock steps: by how much the clock was set, as another clock shows that nobody can set.

Pure: the caller reads both clocks.
"""

# Two clocks cannot be read at the same instant, and both are corrected by a little all the time.
_TOLERANCE_SECONDS = 1.0
_SKEW_WARNING_SECONDS = 60.0


class ClockWatch:
    """Compares successive readings of the clock with the time that has really passed."""

    def __init__(self) -> None:
        self._previous: tuple[float, float | None] | None = None

    def begin_at(self, latest: float) -> None:
        """Set the latest time that is known from before: the clock may have been set since."""
        self._previous = latest, None

    def step_at(self, now: float, elapsed: float | None) -> float:
        """Return by how many seconds the clock was set since the last reading, 0.0 if it was not.

        `elapsed` is a time that always passes evenly. Where there is none for both readings, only
        a step back is distinguished from time that has passed.
        """
        before, self._previous = self._previous, (now, elapsed)
        if before is None:
            return 0.0
        if elapsed is None or before[1] is None:
            step = min(0.0, now - before[0])
        else:
            step = (now - before[0]) - (elapsed - before[1])
        return step if abs(step) > _TOLERANCE_SECONDS else 0.0


def is_clock_wrong(skew_seconds: float) -> bool:
    """Return whether a node's clock differs so much from the hub's that it is worth a warning."""
    return abs(skew_seconds) > _SKEW_WARNING_SECONDS
