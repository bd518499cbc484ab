"""Requests and nodes of a small queue, for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleet_smi.model.queue.entries import QueueEntry, QueueOffer, QueueRequest
from fleet_smi.model.queue.places import Place
from fleet_smi.model.queue.plan import Decision, plan_queue
from tests.builders import NOON


def entry(number: int, person: str = "alice", count: int = 1, **fields: Any) -> QueueEntry:
    """A request that arrived `number` seconds after noon."""
    own = {name: fields.pop(name) for name in ("kind", "max_hours", "model") if name in fields}
    return QueueEntry(
        id=f"{number:04d}",
        person=person,
        request=QueueRequest(count=count, **own),
        arrived_at=NOON + number,
        seen_at=NOON + number,
        **fields,
    )


def offer(*uuids: str, node: str = "gpu01", until: float = NOON + 30) -> QueueOffer:
    """An offer of these GPUs."""
    return QueueOffer(node_id=node, node=node, uuids=uuids, labels=uuids, made_at=NOON, until=until)


def place(node: str, free: int, total: int | None = None) -> Place:
    """A node with so many free GPUs."""
    uuids = tuple([f"{node}:{index}" for index in range(free)])
    return Place(node, node, uuids, free if total is None else total)


def plan(
    entries: Sequence[QueueEntry],
    places: Sequence[Place],
    use_hours: Mapping[str, float] | None = None,
    **options: Any,
) -> list[Decision]:
    """Plan a queue in which everybody could use every node."""
    return plan_queue(entries, use_hours or {}, lambda _: places, NOON + 3600, **options)


def granted(decisions: Sequence[Decision]) -> dict[str, tuple[str, ...]]:
    """Return what each request was given, by its id."""
    return {each.entry.id: each.uuids for each in decisions if each.uuids}
