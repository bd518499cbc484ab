"""Tools of the hub's queue: who waits, and with actions allowed, join it and leave it."""

from contextlib import closing
from typing import Annotated

from msgspec import Meta, Struct

from fleet_smi.errors import NotFound
from fleet_smi.mcp.answers import WantedGpus, cut
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import OutsideText, iso_time, outside, quoted, reason
from fleet_smi.model.queue.entries import ANYWHERE, QueueRequest
from fleet_smi.model.queue.view import QueueRow

_MAX_ROWS, _MAX_LABELS = 50, 16
_HOUR = 3600.0


class NoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


class JoinArguments(WantedGpus, frozen=True, kw_only=True):
    """A request to the queue: `count` GPUs of one node."""

    where: Annotated[str, Meta(max_length=200, description="any, node:gpu03, label:rack=3")] = (
        ANYWHERE
    )
    max_hours: (
        Annotated[float, Meta(gt=0, lt=10_000, description="how long it will run")] | None
    ) = None
    note: Annotated[str, Meta(max_length=200)] | None = None
    keep_hours: Annotated[float, Meta(ge=0.1, le=12, description="how long to keep waiting")] = 1.0


class CancelArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of one's own."""

    id: Annotated[str, Meta(max_length=64, description="its id in queue_status")]


class QueuedRequest(Struct, frozen=True, kw_only=True):
    """A request in the queue; one with an offer has no place any more."""

    id: OutsideText
    person: OutsideText
    mine: bool
    place: int | None
    wants: OutsideText
    why: OutsideText
    since: str | None
    usually_by: str | None
    offered: tuple[OutsideText, ...] = ()
    offered_until: str | None = None


class QueueStatus(Struct, frozen=True, kw_only=True):
    """The queue, the first first; `person` is whose requests are `mine`."""

    person: OutsideText | None
    requests: tuple[QueuedRequest, ...]
    more_requests: int


class CancelledRequest(Struct, frozen=True, kw_only=True):
    """The request that was removed."""

    id: OutsideText


def queue_status(access: FleetAccess, _: NoArguments) -> tuple[QueueStatus, str]:
    """Return who waits for GPUs, in which order, and why."""
    view = access.require_hub().queue()
    # One's own first: of a long queue they must not be cut off.
    rows = sorted(view.rows, key=lambda row: not row.own)
    requests, more = cut(rows, _MAX_ROWS, _row)
    found = QueueStatus(person=outside(view.person), requests=requests, more_requests=more)
    return found, "\n".join(map(_line, found.requests)) or "Nobody waits."


def join_queue(access: FleetAccess, asked: JoinArguments) -> tuple[QueuedRequest, str]:
    """Wait for GPUs as the person of the server's token."""
    request = QueueRequest(
        count=asked.count,
        min_free_bytes=asked.min_free_bytes,
        model=asked.model,
        vendor=asked.vendor,
        where=asked.where,
        max_hours=asked.max_hours,
        note=asked.note,
        keep_seconds=asked.keep_hours * _HOUR,
    )
    with closing(access.acting()) as client:
        found = _row(client.join_queue(request))
    return found, f"{_line(found)}\nTake what is offered with `fleet-smi run` on that node."


def cancel_my_request(access: FleetAccess, asked: CancelArguments) -> tuple[CancelledRequest, str]:
    """Leave the queue; never with the request of somebody else, whatever the token may do."""
    with closing(access.acting()) as client:
        own = [row.id for row in client.queue().rows if row.own]
        if asked.id not in own:
            raise NotFound(f"you have no request {outside(asked.id)} in the queue")
        client.cancel_request(asked.id)
    text = f"Removed request {quoted(asked.id)} from the queue."
    return CancelledRequest(id=outside(asked.id)), text


def _row(row: QueueRow) -> QueuedRequest:
    offer = row.offer
    return QueuedRequest(
        id=outside(row.id),
        person=outside(row.person),
        mine=row.own,
        place=row.place,
        wants=reason(row.wants),
        why=reason(row.why),
        since=iso_time(row.arrived_at),
        usually_by=iso_time(row.expected.by),
        offered=() if offer is None else tuple(map(outside, offer.labels[:_MAX_LABELS])),
        offered_until=None if offer is None else iso_time(offer.until),
    )


def _line(row: QueuedRequest) -> str:
    who = "you" if row.mine else quoted(row.person)
    place = "offered" if row.place is None else f"place {row.place}"
    return f"- {quoted(row.id)} {who}, {place}: {row.wants}; {row.why}"
