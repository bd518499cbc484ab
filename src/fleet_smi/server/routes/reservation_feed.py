"""`/api/v1/reservations.ics`: bookings as an iCalendar feed, and its secret address.

Calendar programs send no headers. The secret in the address can read bookings and nothing else.
"""

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.server.booking_requests import is_admin, node_parts
from fleet_smi.server.endpoint import (
    ApiError,
    Endpoint,
    RequestContext,
    authorize_request,
    json_response,
)
from fleet_smi.server.http_error import HttpError
from fleet_smi.wire.icalendar import MEDIA_TYPE, encode_calendar

_BAD_SECRET = HttpError(
    401, "bad_token", "this address is no longer valid: get a new one with `fleet-smi reserve feed`"
)
_NOBODY = HttpError(403, "no_person", "only a person has a calendar: sign in first")
_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class FeedQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The secret of the address, and what to show: one node, one owner, or all."""

    token: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET
    node: _Name | UnsetType = UNSET
    owner: _Name | UnsetType = UNSET


class FeedQueryOwner(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose address is revoked; another's than one's own by admins only."""

    owner: _Name | UnsetType = UNSET


class FeedAddress(Struct, frozen=True, kw_only=True):
    """The address of a calendar with its secret, shown this once."""

    url: str


async def calendar(context: RequestContext) -> Response:
    """The bookings of the last months and to come, as a calendar."""
    query: FeedQuery = context.query
    _require_access(context, query)
    shown, names = [], {}
    for one in context.services.reservations.all():
        if query.owner not in (UNSET, one.owner):
            continue
        if one.node_id not in names:
            parts = node_parts(context, one.node_id)
            names[one.node_id] = one.node if parts is None else parts.node.name
        if query.node in (UNSET, one.node_id, names[one.node_id]):
            shown.append(one)
    title = "GPUs" if query.node is UNSET else f"GPUs of {query.node}"
    body = encode_calendar(shown, names, title)
    return Response(body, headers={"Cache-Control": "no-cache"}, media_type=MEDIA_TYPE)


async def create_feed(context: RequestContext) -> Response:
    """Make an address for the asker; the one before is no longer valid."""
    identity = context.identity
    if identity is None or identity.person is None:
        raise ApiError(_NOBODY)
    is_account = context.services.credentials.has_user(identity.person)
    secret = await asyncio.to_thread(
        context.services.reservations.create_feed, identity.person, is_account=is_account
    )
    return json_response(FeedAddress(url=f"{_hub_url(context)}{_PATH}?token={secret}"))


async def remove_feed(context: RequestContext) -> Response:
    """Revoke the address of the asker; an admin may revoke that of anybody."""
    owner = context.person if context.query.owner is UNSET else context.query.owner
    if owner is None:
        raise ApiError(_NOBODY)
    if owner != context.person and not is_admin(context):
        message = "only an admin may revoke the address of somebody else"
        raise ApiError(HttpError(403, "forbidden", message))
    if not await asyncio.to_thread(context.services.reservations.remove_feed, owner):
        raise ApiError(HttpError(404, "no_feed", f"{owner} has no address of the calendar"))
    return Response(status_code=204)


def _hub_url(context: RequestContext) -> str:
    """The URL of the hub as the settings have it, else as the client reached it."""
    services = context.services
    if services.public_url is not None:
        return services.public_url.rstrip("/")
    forwarded = services.access.forwarded_origin(context.request.scope["headers"], context.peer)
    scheme = "https" if services.tls else "http"
    return (forwarded or f"{scheme}://{context.header('host')}") + services.base_path


def _require_access(context: RequestContext, query: FeedQuery) -> None:
    """Raise `ApiError` unless the secret is valid, or the asker may see the fleet."""
    services = context.services
    if query.token is UNSET:
        authorize_request(context.request, services, "view")
        return
    found = services.reservations.feed_owner(query.token)
    # An account that was removed takes its address along.
    if found is None or (found[1] and not services.credentials.has_user(found[0])):
        headers = context.request.scope["headers"]
        raise ApiError(services.access.record_failure(headers, context.peer, _BAD_SECRET))


_PATH = "/api/v1/reservations.ics"
_FEED = "/api/v1/reservations/feed"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="The bookings as an iCalendar feed",
        required_action=None,
        handler=calendar,
        query=FeedQuery,
        response=str,
        response_media_types=("text/calendar",),
        extra_statuses=(401, 403, 429),
    ),
    Endpoint(
        method="POST",
        path=_FEED,
        summary="Make the secret address of one's calendar, which is shown this once",
        required_action="act",
        handler=create_feed,
        response=FeedAddress,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="DELETE",
        path=_FEED,
        summary="Revoke the secret address of a calendar",
        required_action="act",
        handler=remove_feed,
        query=FeedQueryOwner,
        status=204,
        extra_statuses=(404, 503),
    ),
)
