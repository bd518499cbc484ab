"""Decayed use: the GPU-hours of each person, of which a week ago counts half."""

from collections.abc import Iterable, Mapping, Sequence

HALF_LIFE_SECONDS = 7 * 86_400.0
LOOKBACK_SECONDS = 6 * HALF_LIFE_SECONDS
"""What is older counts less than one part in sixty-four."""
HELD_GPU_HOURS = 1.0
"""What a GPU that somebody holds now counts for in advance: without it, who has used nothing yet
would be given every GPU that becomes free in one moment."""
_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86_400.0


def decay(gpu_seconds: float, age_seconds: float) -> float:
    """Return what is left of some use after a time; use in the future counts in full."""
    return gpu_seconds * float(0.5 ** (max(0.0, age_seconds) / HALF_LIFE_SECONDS))


def decayed_hours(daily_seconds: Sequence[float], first_day: float, now: float) -> float:
    """Return the decayed GPU-hours of days that begin at `first_day`, each with GPU-seconds.

    A day counts as of its middle; of the current one, as of the middle of what has passed.
    """
    total = 0.0
    for number, seconds in enumerate(daily_seconds):
        if seconds <= 0:
            continue
        begin = first_day + number * _DAY_SECONDS
        end = max(begin, min(begin + _DAY_SECONDS, now))
        total += decay(seconds, now - (begin + end) / 2)
    return total / _HOUR_SECONDS


class PastUse:
    """The use of everybody as it was known at one time; it decays from there on."""

    def __init__(self, hours: Mapping[str, float] | None = None, at: float = 0.0) -> None:
        self._hours, self._at = dict(hours or {}), at

    def hours(self, now: float, held: Mapping[str, float]) -> dict[str, float]:
        """Return the GPU-hours of each person; `held` are the GPUs that each has now.

        Those are counted since the use was read, and with `HELD_GPU_HOURS` each.
        """
        since = max(0.0, now - self._at) if self._hours or self._at else 0.0
        found = {person: decay(hours, now - self._at) for person, hours in self._hours.items()}
        for person, gpus in held.items():
            running = gpus * (min(since, _DAY_SECONDS) / _HOUR_SECONDS + HELD_GPU_HOURS)
            found[person] = found.get(person, 0.0) + running
        return found


def count_held(holders: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add up the GPUs of each person."""
    found: dict[str, float] = {}
    for person, gpus in holders:
        found[person] = found.get(person, 0.0) + gpus
    return found
