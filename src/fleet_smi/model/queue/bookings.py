"""Bookings that are active: their GPUs are kept for their owner, and free for others at the end."""

from collections.abc import Collection, Iterable

from fleet_smi.model.queue.entries import QueueEntry, QueueOffer, QueueRequest
from fleet_smi.model.queue.estimate import Upcoming
from fleet_smi.model.queue.occupants import GpuOccupant
from fleet_smi.model.views import NodeParts

_PREFIX = "booking "


def booking_entries(nodes: Iterable[NodeParts], now: float) -> list[QueueEntry]:
    """Return the active bookings as requests that have what they asked for."""
    return [
        QueueEntry(
            id=f"{_PREFIX}{booking.id}",
            person=booking.owner,
            request=QueueRequest(kind="page"),
            arrived_at=booking.starts_at,
            seen_at=now,
            taken_at=now,
            offer=QueueOffer(
                node_id=parts.node.node_id,
                node=parts.node.name,
                uuids=_devices(parts, booking.kept),
                made_at=booking.starts_at,
                until=booking.ends_at,
            ),
        )
        for parts in nodes
        for booking in parts.node.bookings
        if booking.kept
    ]


def _devices(parts: NodeParts, kept: Collection[str]) -> tuple[str, ...]:
    """Return these GPUs and their instances."""
    gpus = [gpu for gpu, _ in parts.gpus if gpu.uuid in kept]
    parts_of = [instance.uuid for gpu in gpus for instance in gpu.instances]
    return (*[gpu.uuid for gpu in gpus], *parts_of)


def is_booking(entry: QueueEntry) -> bool:
    """Whether an entry stands for a booking."""
    return entry.id.startswith(_PREFIX)


def upcoming_bookings(
    nodes: Iterable[NodeParts], person: str | None, now: float
) -> dict[str, list[Upcoming]]:
    """Return the bookings of others that begin soon, by the id of their node."""
    return {
        parts.node.node_id: [
            Upcoming(one.starts_at - now, one.ends_at - now, one.gpus)
            for one in parts.node.bookings
            if not one.is_active and one.owner != person
        ]
        for parts in nodes
        if parts.node.bookings
    }


def booked_occupants(bookings: Iterable[QueueEntry]) -> dict[str, GpuOccupant]:
    """Return who has booked each GPU that is kept, and until when."""
    return {
        uuid: GpuOccupant((entry.person,), entry.offer.made_at, entry.offer.until)
        for entry in bookings
        if entry.offer is not None
        for uuid in entry.offer.uuids
    }
