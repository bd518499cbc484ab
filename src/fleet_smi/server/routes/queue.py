"""`/api/v1/queue`: who waits for GPUs and why; add, keep, take up, change and cancel requests."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.errors import NotFound, Unmet, UsageError
from fleet_smi.hub.credentials import Identity
from fleet_smi.model.queue.entries import (
    ANYWHERE,
    LABEL_PREFIX,
    MAX_KEEP_SECONDS,
    MIN_KEEP_SECONDS,
    NODE_PREFIX,
    Band,
    QueueEntry,
    QueueRequest,
    RequestKind,
)
from fleet_smi.model.queue.limits import MAX_COUNT, MAX_TEXT, MAX_UUIDS
from fleet_smi.model.queue.view import QueueRow, QueueView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.units import parse_memory
from fleet_smi.server.auth import acting_name, may_edit
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError

_MAX_HOURS = 10_000.0
_Text = Annotated[str, Meta(max_length=1000)]
_Hours = Annotated[float, Meta(gt=0, lt=_MAX_HOURS)]


class QueueAsk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for `n` GPUs of one node.

    `where` is `any`, `node:NAME` or `label:KEY=VALUE`; `uuids` limits it to these GPUs. It is
    dropped if nobody asks for it (PATCH) for `keep_seconds`. With `ignore_bookings` it may have
    what somebody else has booked, who is told.
    """

    n: Annotated[int, Meta(ge=1, le=MAX_COUNT)] = 1
    min_free: Annotated[str, Meta(max_length=32)] = "0"
    model: _Text | None = None
    vendor: Vendor | None = None
    where: _Text = ANYWHERE
    uuids: Annotated[
        tuple[Annotated[str, Meta(pattern=r"\A[!-~]{1,160}\Z")], ...], Meta(max_length=MAX_UUIDS)
    ] = ()
    max_hours: _Hours | None = None
    note: _Text | None = None
    kind: RequestKind = "wait"
    keep_seconds: Annotated[float, Meta(ge=MIN_KEEP_SECONDS, le=MAX_KEEP_SECONDS)] = 60.0
    ignore_bookings: bool = False

    def request(self) -> QueueRequest:
        """The request; raise `UsageError` if it is invalid."""
        return QueueRequest(
            count=self.n,
            min_free_bytes=parse_memory(self.min_free),
            model=_clean(self.model),
            vendor=self.vendor,
            where=_checked_where(self.where),
            uuids=self.uuids,
            max_hours=self.max_hours,
            note=_clean(self.note),
            kind=self.kind,
            keep_seconds=self.keep_seconds,
            ignore_bookings=self.ignore_bookings,
        )


class QueueChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; nothing says only that the request is still wanted.

    `taken` and `declined` are the answer to an offer; with `unreachable`, its node could not be
    used from there, and others are offered. Only an admin may set the `band`.
    """

    taken: bool = False
    declined: bool = False
    unreachable: bool = False
    note: _Text | None = None
    max_hours: _Hours | None = None
    band: Band | None = None


async def list_queue(context: RequestContext) -> Response:
    """Every request with its place, why it waits, and when it can probably be met."""
    identity = context.identity
    person = None if identity is None else acting_name(identity)
    await context.services.queue.ready()
    return json_response(context.services.queue.view(person))


async def add_request(context: RequestContext) -> Response:
    """Add a request; where it can be met at once, the response has the offer already."""
    ask: QueueAsk = context.body
    identity, request = _identity(context), ask.request()
    # The id of the node whose agent vouches for this person.
    via = identity.node_id if identity.auth_method == "agent" else None
    try:
        row = await context.services.queue.join(acting_name(identity), request, via=via)
        return json_response(row)
    except UsageError as error:
        raise ApiError(HttpError(409, "impossible", str(error))) from None
    except Unmet as error:
        raise ApiError(HttpError(409, "too_many", str(error))) from None


async def change_request(context: RequestContext) -> Response:
    """Keep a request, take up its offer or decline it, or change it; respond with its row."""
    change: QueueChange = context.body
    await context.services.queue.ready()
    entry = _require_own(context)
    queue, identity = context.services.queue, _identity(context)
    if change.band is not None and identity.role != "admin":
        raise ApiError(HttpError(403, "forbidden", "only an admin may change the priority"))
    if acting_name(identity) == entry.person:
        await queue.hear(entry.id)
    try:
        return json_response(await _change(context, entry, change))
    except NotFound as error:  # it has ended meanwhile
        raise ApiError(HttpError(404, "unknown_request", str(error))) from None
    except Unmet as error:
        raise ApiError(HttpError(503, "not_planned", str(error))) from None


async def _change(context: RequestContext, entry: QueueEntry, change: QueueChange) -> QueueRow:
    queue = context.services.queue
    if change.taken:
        row = queue.row(entry.id, entry.person)
        await queue.take(entry.id)
        return row
    if change.declined:
        await queue.decline(entry.id, unreachable=change.unreachable)
    if not (change.note is None and change.max_hours is None and change.band is None):
        await queue.change(
            entry.id, band=change.band, note=_clean(change.note), max_hours=change.max_hours
        )
    return queue.row(entry.id, acting_name(_identity(context)))


async def cancel_request(context: RequestContext) -> Response:
    """Remove a request of one's own; an admin may remove any."""
    queue = context.services.queue
    await queue.ready()
    await queue.cancel(_require_own(context).id)
    return Response(status_code=204)


def _identity(context: RequestContext) -> Identity:
    if context.identity is None:  # never, with the action `act`
        raise ApiError(HttpError(401, "unauthenticated", "authentication required"))
    return context.identity


def _require_own(context: RequestContext) -> QueueEntry:
    """The request of the path, if the sender may change it."""
    try:
        entry = context.services.queue.entry(context.path_params["request_id"])
    except NotFound as error:
        raise ApiError(HttpError(404, "unknown_request", str(error))) from None
    if not may_edit(_identity(context), entry.person):
        message = f"this request is {entry.person}'s: only they or an admin may change it"
        raise ApiError(HttpError(403, "not_yours", message))
    return entry


def _clean(text: str | None) -> str | None:
    return None if text is None else sanitize_text(text, MAX_TEXT) or None


def _checked_where(where: str) -> str:
    where = sanitize_text(where, MAX_TEXT)
    is_place = where.startswith((NODE_PREFIX, LABEL_PREFIX)) and not where.endswith(":")
    if where != ANYWHERE and not is_place:
        raise UsageError(f"{where!r} is no place: write any, node:NAME or label:KEY=VALUE")
    return where


_PATH = "/api/v1/queue"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="Who waits for GPUs, in which order, and why",
        required_action="view",
        handler=list_queue,
        response=QueueView,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Wait for GPUs",
        required_action="act",
        handler=add_request,
        body=QueueAsk,
        response=QueueRow,
        extra_statuses=(409, 503),
    ),
    Endpoint(
        method="PATCH",
        path=f"{_PATH}/{{request_id}}",
        summary="Keep a request, answer its offer, or change it",
        required_action="act",
        handler=change_request,
        body=QueueChange,
        response=QueueRow,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{request_id}}",
        summary="Cancel a request",
        required_action="act",
        handler=cancel_request,
        status=204,
        extra_statuses=(404, 503),
    ),
)
