"""Elapsed time: a clock that passes evenly, and that nobody can set."""

import time


def elapsed_seconds() -> float:
    """Seconds since some moment, those in which the machine was suspended included."""
    # macOS has no such clock: there a suspended hub looks like a clock set forward.
    clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock_id)
