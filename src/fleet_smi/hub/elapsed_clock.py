"""Elapsed time: a clock that passes evenly, and that nobody can set."""

import time

# macOS has no such clock: there a suspended hub looks like a clock set forward.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Seconds since some moment, those in which the machine was suspended included."""
    return time.clock_gettime(_CLOCK)
