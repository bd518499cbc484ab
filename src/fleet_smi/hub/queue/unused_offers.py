"""Unused offers: for how long GPUs were kept for a person who did not use them.

Counted by person and not by request: who lets an offer lapse, or takes it and runs nothing, can
ask again in another request.
"""

import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from fleet_smi.model.queue.entries import QueueEntry
from fleet_smi.model.token_bucket import TokenBucket

ALLOWED_SECONDS, FORGIVEN_PER_SECOND = 120.0, 1 / 20
"""Two minutes are allowed, and one second of it again every twenty seconds."""


class _Open(NamedTuple):
    person: str
    made_at: float
    since: float


class UnusedOffers:
    """Learns from the requests of the queue which offers ended; by a clock that cannot be set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, _Open] = {}
        self._kept = TokenBucket(burst=ALLOWED_SECONDS, refill_seconds=1 / FORGIVEN_PER_SECOND)

    def observe(self, entries: Iterable[QueueEntry], excused: Collection[str] = ()) -> None:
        """Count the offers that are gone since the last call, but for those that were excused."""
        now, known, self._open = self._clock(), self._open, {}
        for entry in entries:
            if entry.offer is None:
                continue
            before = known.get(entry.id)
            if before is not None and before.made_at == entry.offer.made_at:
                self._open[entry.id] = known.pop(entry.id)
            else:
                self._open[entry.id] = _Open(entry.person, entry.offer.made_at, now)
        for entry_id, ended in known.items():
            if entry_id not in excused:
                self._kept.spend(ended.person, now - ended.since, now)

    def forget_open(self) -> None:
        """Count none of the offers that are open now: another hub decides on them."""
        self._open = {}

    def late_people(self, people: Iterable[str]) -> frozenset[str]:
        """Return who of them has kept GPUs from others for too long."""
        now = self._clock()
        return frozenset(each for each in set(people) if self._kept.seconds_until(each, 0, now))
