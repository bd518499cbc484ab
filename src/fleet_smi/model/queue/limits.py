"""Limits of the queue: how many requests may wait, of one person, of one node and in all."""

from collections.abc import Iterable
from typing import NamedTuple

from fleet_smi.model.queue.entries import QueueEntry

MAX_COUNT = 1024
MAX_UUIDS = 1024
MAX_TEXT = 120


class QueueLimits(NamedTuple):
    """How many requests may wait, of one person and in all."""

    per_person: int
    in_all: int

    @property
    def per_node(self) -> int:
        """How many of those whom one agent vouches for: it may make people up."""
        return max(self.per_person, self.in_all // 4)


def refusal(
    entries: Iterable[QueueEntry], person: str, limits: QueueLimits, via: str | None = None
) -> str | None:
    """Return why a person may not add another request; `None` if they may.

    `via` is the node that vouches for them.
    """
    waiting = [entry for entry in entries if entry.taken_at is None]
    if sum(entry.person == person for entry in waiting) >= limits.per_person:
        return (
            f"{limits.per_person} requests of yours wait already: cancel one with "
            "`fleet-smi queue cancel`"
        )
    if via is not None and sum(entry.via == via for entry in waiting) >= limits.per_node:
        return (
            f"{limits.per_node} requests from this node wait already, the most there may be: "
            "run `fleet-smi login` to ask in your own name"
        )
    if len(waiting) >= limits.in_all:
        return f"the queue is full: {limits.in_all} requests wait already"
    return None
