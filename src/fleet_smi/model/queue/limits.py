"""Limits of the queue: how many requests may wait, of one person and in all."""

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


def refusal(entries: Iterable[QueueEntry], person: str, per_person: int, in_all: int) -> str | None:
    """Return why a person may not add another request; `None` if they may."""
    waiting = [entry for entry in entries if entry.taken_at is None]
    if sum(entry.person == person for entry in waiting) >= per_person:
        return (
            f"{per_person} requests of yours wait already: cancel one with `fleet-smi queue cancel`"
        )
    if len(waiting) >= in_all:
        return f"the queue is full: {in_all} requests wait already"
    return None
