"""Chance that repeats itself: the same key gives the same story, on any machine."""

from random import Random

_PLACES = 1024


def seeded_rng(*key: object) -> Random:
    """Dice that fall the same way whenever they are thrown for the same key."""
    return Random("/".join(map(str, key)))  # noqa: S311  # a story, not a secret


_THROWN = seeded_rng("wander")
_POINTS = tuple(_THROWN.random() for _ in range(_PLACES))


def smooth_noise(at: float) -> float:
    """A curve between 0 and 1 that drifts from one chance value to the next, one a unit."""
    whole = int(at)
    before, after = _POINTS[whole % _PLACES], _POINTS[(whole + 1) % _PLACES]
    return before + (after - before) * (at - whole)


def jitter(at: float) -> float:
    """A value between 0 and 1 that jumps: cheap, for what nobody follows by eye."""
    return at * 0.618034 % 1.0
