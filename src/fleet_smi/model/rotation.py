"""Round-robin work on a fleet: a few nodes at a time, so that no step on a large one takes long."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Generic, TypeVar

_T = TypeVar("_T")
_MIN_PER_CHECK = 100


class PeriodicTimer:
    """Is due once per period, by the times that it is asked at."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_at = -inf

    def is_due(self, now: float) -> bool:
        """Return whether a period has passed since it was last due, which is now then."""
        # A due time too far ahead counts as due: the clock was set back.
        if now < self._due_at <= now + self._seconds:
            return False
        self.restart(now)
        return True

    def restart(self, now: float) -> None:
        """Let the period begin now."""
        self._due_at = now + self._seconds


class Rotation(Generic[_T]):
    """Goes round: each check gets all members of a small fleet, and one part of a large one."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._unchecked: list[_T] = []

    def next(self, members: Mapping[str, _T]) -> list[_T]:
        """Return the members to check now; some may have left since the round began."""
        if not self._unchecked:
            self._unchecked = list(members.values())
        count = max(_MIN_PER_CHECK, -(-len(members) // self._parts))
        some, self._unchecked = self._unchecked[:count], self._unchecked[count:]
        return some


class WorkQueue(Generic[_T]):
    """Keys whose work is to be done, a few at a time; each only once."""

    def __init__(self, max_at_once: int) -> None:
        self._max_at_once = max_at_once
        self._keys: dict[_T, None] = {}

    def add(self, keys: Iterable[_T]) -> None:
        """Queue keys; those that wait already keep their place."""
        self._keys.update(dict.fromkeys(keys))

    def take(self) -> list[_T]:
        """Remove and return those that waited longest."""
        some = list(self._keys)[: self._max_at_once]
        for key in some:
            del self._keys[key]
        return some
