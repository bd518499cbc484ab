"""Refusal log: which machines the hub turned away lately, and why."""

import time
from collections.abc import Callable
from typing import NamedTuple

from fleet_smi.model.hub_problems import RefusedSender
from fleet_smi.model.safe_text import sanitize_text

# An agent that is refused tries again at least every few minutes.
_KEEP_SECONDS = 900.0
# Bounded: anyone who can connect can be refused, from any number of addresses.
_MAX_SENDERS = 200
_MAX_TEXT = 128


class Refusal(NamedTuple):
    """Whom the hub turned away, why, and what an admin can do about it."""

    address: str
    reason: str
    remedy: str
    node_id: str | None = None
    name: str | None = None


class RefusalLog:
    """The refused senders of the last quarter of an hour, one entry per sender and reason."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._senders: dict[tuple[str, str | None, str], RefusedSender] = {}

    def record(self, refusal: Refusal) -> None:
        """Record one more refusal of a sender."""
        key = (refusal.address, refusal.node_id, refusal.reason)
        before = self._senders.pop(key, None)  # so that it moves to the end
        self._senders[key] = RefusedSender(
            address=sanitize_text(refusal.address, _MAX_TEXT),
            node_id=refusal.node_id,
            name=sanitize_text(refusal.name or "", _MAX_TEXT) or None,
            reason=refusal.reason,
            remedy=refusal.remedy,
            attempts=1 if before is None else before.attempts + 1,
            last_at=self._clock(),
        )
        if len(self._senders) > _MAX_SENDERS:
            del self._senders[next(iter(self._senders))]

    def forget(self, node_id: str, address: str) -> None:
        """Forget the refusals of a node that has joined, also from before its id was known.

        Those of another machine at the same address return with its next attempt.
        """
        for key in [
            key for key in self._senders if key[1] == node_id or key[:2] == (address, None)
        ]:
            del self._senders[key]

    def recent(self) -> tuple[RefusedSender, ...]:
        """Return the refused senders, the latest first."""
        after = self._clock() - _KEEP_SECONDS
        return tuple([each for each in reversed(self._senders.values()) if each.last_at > after])
