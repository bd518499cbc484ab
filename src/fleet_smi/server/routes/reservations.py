"""`/api/v1/reservations`: list bookings of GPUs, check, make, change and cancel them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.errors import NotFound, Unmet
from fleet_smi.hub.reservations import BookingConflict
from fleet_smi.model.booking_rules import Change, apply_change, sanitize_note
from fleet_smi.model.reservation import (
    BookingCheck,
    Overbooking,
    Reservation,
    ReservationInfo,
    ReservationList,
    find_overbooked,
)
from fleet_smi.server.booking_requests import (
    booking_owner,
    closed_text,
    count_gpus,
    describe,
    find_node,
    in_the_way,
    is_admin,
    may_change,
    node_parts,
    vouching_node,
)
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import ErrorDetail, HttpError

_Note = Annotated[str, Meta(max_length=1000)]
_Gpus = Annotated[int, Meta(ge=1, le=1024)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class ReservationsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bookings that overlap a range, in seconds since 1970; by default from now on.

    `node` is a name or an id. `cancelled` adds those that were cancelled or released.
    """

    since: float | UnsetType = UNSET
    until: float | UnsetType = UNSET
    node: _Name | UnsetType = UNSET
    owner: _Name | UnsetType = UNSET
    cancelled: bool = False


class ReservationRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A booking of GPUs of a node, by its name or id; times are seconds since 1970.

    With `force` it may overlap others. `owner` is for admins, who book for somebody else.
    """

    node: _Name
    gpus: _Gpus
    starts_at: float
    ends_at: float
    note: _Note = ""
    owner: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    force: bool = False


class ReservationChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a booking; with `force` it may overlap others."""

    node: _Name | None = None
    gpus: _Gpus | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    note: _Note | None = None
    force: bool = False


class CheckRequest(ReservationChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A booking to be checked; with `id`, a change of that one."""

    id: str | None = None


class ConflictBody(Struct, frozen=True, kw_only=True):
    """Why a booking was not made, and what would fit instead."""

    error: ErrorDetail
    check: BookingCheck


async def list_reservations(context: RequestContext) -> Response:
    """The bookings, by their start."""
    query: ReservationsQuery = context.query
    now = context.hub.clock()
    since = now if query.since is UNSET else query.since
    until = float("inf") if query.until is UNSET else query.until
    shown = [
        one
        for one in context.services.reservations.all()
        if one.ends_at > since
        and one.starts_at < until
        and (one.is_open or query.cancelled)
        and query.owner in (UNSET, one.owner)
    ]
    infos = [describe(context, one, now) for one in shown]
    if query.node is not UNSET:
        infos = [info for info in infos if query.node in (info.node, info.node_id)]
    return json_response(
        ReservationList(
            taken_at=now,
            person=context.person,
            may_book=context.person is not None or is_admin(context),
            reservations=tuple(infos),
            overbooked=tuple(_overbooked(context, shown)),
        )
    )


async def check(context: RequestContext) -> Response:
    """Whether a booking fits, without making it."""
    request: CheckRequest = context.body
    one = _draft(context, request)
    parts = node_parts(context, one.node_id)
    result = context.services.reservations.check(
        one, count_gpus(parts), in_the_way(context, one, parts)
    )
    return json_response(replace(result, closed=closed_text(context, one)))


async def create(context: RequestContext) -> Response:
    """Make a booking."""
    request: ReservationRequest = context.body
    one = _new(context, request, booking_owner(context, request.owner))
    count = count_gpus(node_parts(context, one.node_id))
    book = context.services.reservations
    return await _changed(
        context,
        lambda: book.add(one, count, force=request.force, by_admin=is_admin(context)),
    )


async def update(context: RequestContext) -> Response:
    """Change a booking: its owner, or an admin."""
    request: ReservationChange = context.body
    before = _own(context)
    change = _change(context, request)
    count = count_gpus(node_parts(context, change.node_id or before.node_id))
    book = context.services.reservations
    return await _changed(context, lambda: book.edit(before.id, change, count, force=request.force))


async def cancel(context: RequestContext) -> Response:
    """Cancel a booking, or end one that has begun: its owner, or an admin."""
    one, book = _own(context), context.services.reservations
    _require_calm(context)
    await asyncio.to_thread(book.cancel, one.id)
    book.show()
    return Response(status_code=204)


async def _changed(context: RequestContext, change: Callable[[], Reservation]) -> Response:
    _require_calm(context)
    try:
        one = await asyncio.to_thread(change)
    except BookingConflict as conflict:
        error = ErrorDetail("conflict", f"{conflict}; send `force` to book anyway")
        return json_response(ConflictBody(error=error, check=conflict.check), 409)
    except NotFound as error:
        raise ApiError(HttpError(404, "unknown_reservation", str(error))) from None
    context.services.reservations.show()
    return json_response(describe(context, one, context.hub.clock()))


def _require_calm(context: RequestContext) -> None:
    """Raise `ApiError` if the asker, or the node that vouches for them, sends too much."""
    person, via = context.person or "", vouching_node(context)
    try:
        context.services.reservations.pace.require_calm(person, via)
    except Unmet as error:
        raise ApiError(HttpError(429, "too_many", str(error))) from None


def _overbooked(context: RequestContext, shown: Sequence[Reservation]) -> Iterator[Overbooking]:
    """Where more is booked than there is, by all bookings of the nodes that are shown."""
    for node_id in dict.fromkeys([one.node_id for one in shown]):
        of_node = [one for one in shown if one.node_id == node_id]
        gpus = count_gpus(node_parts(context, node_id))
        if gpus is not None:
            yield from find_overbooked(node_id, of_node, gpus)


def _new(context: RequestContext, request: ReservationRequest, owner: str) -> Reservation:
    node = find_node(context, request.node).node
    return Reservation(
        id="",
        owner=owner,
        node_id=node.node_id,
        node=node.name,
        gpus=request.gpus,
        starts_at=request.starts_at,
        ends_at=request.ends_at,
        note=sanitize_note(request.note),
        via=vouching_node(context),
    )


def _draft(context: RequestContext, request: CheckRequest) -> Reservation:
    change, now = _change(context, request), context.hub.clock()
    if request.id is not None:
        return apply_change(_find(context, request.id), change, now)
    if change.node_id is None or None in (change.gpus, change.starts_at, change.ends_at):
        raise ApiError(HttpError(400, "bad_body", "give node, gpus, starts_at and ends_at"))
    blank = Reservation(
        id="", owner=context.person or "", node_id="", node="", gpus=0, starts_at=0, ends_at=0
    )
    return replace(
        apply_change(replace(blank, starts_at=now, ends_at=now + 1), change, now), sequence=0
    )


def _change(context: RequestContext, request: ReservationChange) -> Change:
    node = None if request.node is None else find_node(context, request.node).node
    return Change(
        node_id=None if node is None else node.node_id,
        node=None if node is None else node.name,
        gpus=request.gpus,
        starts_at=request.starts_at,
        ends_at=request.ends_at,
        note=request.note,
    )


def _own(context: RequestContext) -> Reservation:
    """The booking of the path; raise `ApiError` unless the asker may change it."""
    one = _find(context, context.path_params["reservation_id"])
    if not may_change(context, one):
        message = f"this booking is {one.owner}'s: only they or an admin may change it"
        raise ApiError(HttpError(403, "not_yours", message))
    return one


def _find(context: RequestContext, reservation_id: str) -> Reservation:
    try:
        return context.services.reservations.find(reservation_id)
    except NotFound as error:
        raise ApiError(HttpError(404, "unknown_reservation", str(error))) from None


_PATH = "/api/v1/reservations"
_ONE = f"{_PATH}/{{reservation_id}}"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="Bookings of GPUs, by their start",
        required_action="view",
        handler=list_reservations,
        query=ReservationsQuery,
        response=ReservationList,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Book GPUs of a node for a time",
        required_action="act",
        handler=create,
        body=ReservationRequest,
        response=ReservationInfo,
        extra_statuses=(404, 409, 429, 503),
    ),
    Endpoint(
        method="POST",
        path=f"{_PATH}/check",
        summary="Whether a booking fits beside the others, without making it",
        required_action="act",
        handler=check,
        body=CheckRequest,
        response=BookingCheck,
        extra_statuses=(404, 409),
    ),
    Endpoint(
        method="PATCH",
        path=_ONE,
        summary="Change a booking: its owner, or an admin",
        required_action="act",
        handler=update,
        body=ReservationChange,
        response=ReservationInfo,
        extra_statuses=(404, 409, 429, 503),
    ),
    Endpoint(
        method="DELETE",
        path=_ONE,
        summary="Cancel a booking, or end one that has begun: its owner, or an admin",
        required_action="act",
        handler=cancel,
        status=204,
        extra_statuses=(404, 429, 503),
    ),
)
