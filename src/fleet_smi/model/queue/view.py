"""The queue as people see it: one row per request, with its place, why it waits, and until when."""

from msgspec import Struct

from fleet_smi.model.queue.entries import Band, QueueEntry, QueueOffer, QueueRequest
from fleet_smi.model.queue.estimate import UNKNOWN, Expected
from fleet_smi.model.queue.plan import Decision
from fleet_smi.model.queue.reasons import describe_offer, describe_request, describe_wait


class QueueRow(Struct, frozen=True, kw_only=True):
    """One request of the queue.

    `place` counts from 1 those that wait; one with an offer has none. `wants` is the request as
    text, `why` says why it waits, or what it is offered. `use_hours` are the GPU-hours that count
    for its person. `own` is whether it is the reader's own.
    """

    id: str
    person: str
    wants: str
    why: str
    arrived_at: float
    place: int | None = None
    band: Band = "normal"
    request: QueueRequest
    offer: QueueOffer | None = None
    expected: Expected = UNKNOWN
    use_hours: float | None = None
    own: bool = False


class QueueView(Struct, frozen=True, kw_only=True):
    """The whole queue, the first first; `person` is who asks, where that is known."""

    taken_at: float
    rows: tuple[QueueRow, ...] = ()
    person: str | None = None


def offered_row(entry: QueueEntry, now: float) -> QueueRow:
    """Return the row of a request that is offered GPUs, or has them."""
    return QueueRow(
        id=entry.id,
        person=entry.person,
        wants=describe_request(entry.request),
        why=describe_offer(entry, now),
        arrived_at=entry.arrived_at,
        band=entry.band,
        request=entry.request,
        offer=entry.offer,
    )


def waiting_row(decision: Decision, place: int, expected: Expected) -> QueueRow:
    """Return the row of a request that waits."""
    entry = decision.entry
    return QueueRow(
        id=entry.id,
        person=entry.person,
        wants=describe_request(entry.request),
        why=describe_wait(decision),
        arrived_at=entry.arrived_at,
        place=place,
        band=entry.band,
        request=entry.request,
        expected=expected,
        use_hours=decision.use_hours,
    )
