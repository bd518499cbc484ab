"""Patience with those who came first: who does not take what is free for them is passed by.

A place in the queue of a machine is a file that any user can make and keep. Without this, one
user who waits and never takes anything would keep everybody else from GPUs that are free.
"""

import time
from collections.abc import Callable, Iterable

from fleet_smi.node.bindings.lease_queue import Waiter

READY_SECONDS = 20.0
"""How long all that somebody waits for may be free; a waiter looks every five seconds or less."""
SAVING_SECONDS = 3600.0
"""How long some of it may be kept free for somebody who waits for more."""


class WaitingPatience:
    """For how long GPUs have been free for each user ahead, without a break."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready_since: dict[str, float] = {}
        self._saving_since: dict[str, float] = {}

    def still_ahead(self, ahead: Iterable[Waiter], free: frozenset[str]) -> list[Waiter]:
        """Return those ahead for whom to wait, given the GPUs that this process could take now.

        By user, not by place: one who leaves and comes again is no other. Users without a name
        count as one, because one person can have thousands of such ids.
        """
        now, left = self._clock(), set(free)
        ready, saving, found = dict[str, float](), dict[str, float](), list[Waiter]()
        for waiter in ahead:
            usable = sorted(left if waiter.uuids is None else left & waiter.uuids)
            user = "" if waiter.user.isdecimal() else waiter.user
            if usable:
                saving.setdefault(user, self._saving_since.get(user, now))
            if len(usable) >= waiter.wanted:
                ready.setdefault(user, self._ready_since.get(user, now))
            is_passed = (
                now - ready.get(user, now) >= READY_SECONDS
                or now - saving.get(user, now) >= SAVING_SECONDS
            )
            if not is_passed:
                found.append(waiter)
                # The next one can be ready with what is left only.
                left.difference_update(usable[: waiter.wanted])
        self._ready_since, self._saving_since = ready, saving
        return found
