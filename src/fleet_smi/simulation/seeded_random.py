"""Reproducible randomness: the same key gives the same values on any machine."""

from random import Random

_NOISE_POINTS = 1024


def seeded_rng(*key: object) -> Random:
    """Return a random generator seeded with the key."""
    # Text, which `Random` hashes itself: `hash` of a tuple differs from process to process.
    return Random("/".join(map(str, key)))  # noqa: S311  # simulation, not cryptography


# The text of a key is part of the seed: with another one every simulated fleet looks different.
_NOISE = seeded_rng("wander")
_POINTS = tuple(_NOISE.random() for _ in range(_NOISE_POINTS))


def smooth_noise(at: float) -> float:
    """Return value noise in 0..1: linear interpolation between one random point per unit."""
    index = int(at)
    before, after = _POINTS[index % _NOISE_POINTS], _POINTS[(index + 1) % _NOISE_POINTS]
    return before + (after - before) * (at - index)


def jitter(at: float) -> float:
    """Return a cheap pseudo-random value in 0..1, for figures whose shape does not matter."""
    # Multiples of the golden ratio spread evenly over 0..1.
    return at * 0.618034 % 1.0
