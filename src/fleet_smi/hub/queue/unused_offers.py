"""Unused offers: for how long GPUs were kept for a person who did not use them.

Counted by person and not by request: who lets an offer lapse, or takes it and runs nothing, can
ask again in another request. Counted also by the node that vouches: it can make up another person
for each request.
"""

import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from fleet_smi.model.queue.entries import QueueEntry
from fleet_smi.model.token_bucket import TokenBucket

ALLOWED_SECONDS, FORGIVEN_PER_SECOND = 120.0, 1 / 20
"""Two minutes are allowed, and one second of it again every twenty seconds."""
_PEOPLE_PER_NODE = 10
"""The people of one node share an allowance of this many times that of one person."""


class _Open(NamedTuple):
    person: str
    via: str | None
    made_at: float
    since: float


class UnusedOffers:
    """Learns from the requests of the queue which offers ended; by a clock that cannot be set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, _Open] = {}
        refill_seconds = 1 / FORGIVEN_PER_SECOND
        self._people = TokenBucket(burst=ALLOWED_SECONDS, refill_seconds=refill_seconds)
        self._nodes = TokenBucket(
            burst=ALLOWED_SECONDS * _PEOPLE_PER_NODE,
            refill_seconds=refill_seconds / _PEOPLE_PER_NODE,
        )

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
                self._open[entry.id] = _Open(entry.person, entry.via, entry.offer.made_at, now)
        for entry_id, ended in known.items():
            if entry_id not in excused:
                self._count(ended, now)

    def forget_open(self) -> None:
        """Count none of the offers that are open now: another hub decides on them."""
        self._open = {}

    def late_requests(self, entries: Iterable[QueueEntry]) -> frozenset[str]:
        """Return the ids of the requests of those who have kept GPUs from others for too long."""
        now = self._clock()
        return frozenset(each.id for each in entries if self._is_late(each.person, each.via, now))

    def _count(self, ended: _Open, now: float) -> None:
        seconds = now - ended.since
        # A person who is late already costs the others of their node nothing.
        if ended.via is not None and not self._is_late(ended.person, None, now):
            self._nodes.spend(ended.via, seconds, now)
        self._people.spend(ended.person, seconds, now)

    def _is_late(self, person: str, via: str | None, now: float) -> bool:
        is_late = self._people.seconds_until(person, 0, now) > 0
        return is_late or (via is not None and self._nodes.seconds_until(via, 0, now) > 0)
