"""Timers of the queue by the monotonic clock: the clock of a machine may be set at any moment."""

import time
from collections.abc import Callable, Iterable

from fleet_smi.model.queue.entries import QueueEntry
from fleet_smi.model.queue.offers import OFFER_SECONDS


class QueueTimers:
    """When each asker was last heard of, and when each offer lapses.

    What this hub sees for the first time, as after a restart, begins anew: an asker has all its
    time to be heard of, and an offer what is left of its time, as far as that makes sense.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[float, float]] = {}
        self._deadlines: dict[str, tuple[tuple[float, float | None], float]] = {}

    def hear(self, entry_id: str) -> None:
        """Note that the asker of a request was heard of."""
        if entry_id in self._heard:
            self._heard[entry_id] = self._heard[entry_id][0], self._clock()

    def sync(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Learn what has changed in the database, also by other hubs."""
        monotonic = self._clock()
        heard, deadlines = self._heard, self._deadlines
        self._heard, self._deadlines = {}, {}
        for entry in entries:
            known = heard.get(entry.id)
            is_news = known is None or known[0] != entry.seen_at
            self._heard[entry.id] = (
                (entry.seen_at, monotonic) if is_news or known is None else known
            )
            if entry.offer is None:
                continue
            stamp = entry.offer.made_at, entry.taken_at
            found = deadlines.get(entry.id)
            if found is None or found[0] != stamp:
                until = entry.offer.until if entry.taken_at is None else now + OFFER_SECONDS
                left = min(max(0.0, until - now), OFFER_SECONDS)
                # A clock that was set forward must not end what has just begun.
                found = stamp, monotonic + (left or OFFER_SECONDS / 3)
            self._deadlines[entry.id] = found

    def is_gone(self, entry: QueueEntry) -> bool:
        """Whether the asker of a request has not been heard of for too long."""
        known = self._heard.get(entry.id)
        return known is not None and self._clock() - known[1] > entry.request.keep_seconds

    def is_expired(self, entry: QueueEntry) -> bool:
        """Whether the time of an offer is over."""
        known = self._deadlines.get(entry.id)
        return known is not None and self._clock() >= known[1]

    def seconds_left(self, entry: QueueEntry) -> float:
        """How much of the time of an offer is left."""
        known = self._deadlines.get(entry.id)
        return OFFER_SECONDS if known is None else max(0.0, known[1] - self._clock())
