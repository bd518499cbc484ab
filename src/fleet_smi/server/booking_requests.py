"""Shared by the endpoints of bookings: the node, who may book and change, how one is listed."""

from fleet_smi.model.booked_gpus import people_in_the_way
from fleet_smi.model.closing import describe_closing
from fleet_smi.model.reservation import NodeBooking, Reservation, ReservationInfo
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.views import NodeParts
from fleet_smi.server.auth import may_edit
from fleet_smi.server.endpoint import ApiError, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.site_nodes import require_own_node

_NOBODY = HttpError(400, "no_owner", "say for whom: a token of many books for an `owner` (--user)")


def describe(context: RequestContext, one: Reservation, now: float) -> ReservationInfo:
    """A booking as it is listed."""
    parts = node_parts(context, one.node_id)
    shown = _shown_booking(parts, one)
    return ReservationInfo(
        id=one.id,
        owner=one.owner,
        node_id=one.node_id,
        node=one.node if parts is None else parts.node.name,
        gpus=one.gpus,
        starts_at=one.starts_at,
        ends_at=one.ends_at if one.released_at is None else one.released_at,
        note=one.note,
        state=one.state(now),
        used=one.used_at is not None,
        editable=one.is_open and one.ends_at > now and may_change(context, one),
        node_known=parts is not None,
        missing=0 if shown is None else shown.missing,
        in_the_way=() if shown is None else shown.in_the_way,
    )


def find_node(context: RequestContext, name: str) -> NodeParts:
    """The node of this id or name; raise `ApiError` unless there is exactly one."""
    node_ids = [name] if context.hub.fleet.has_node(name) else context.hub.fleet.nodes_named(name)
    found = [parts for node_id in node_ids if (parts := node_parts(context, node_id)) is not None]
    if len(found) > 1:
        message = f"{len(found)} nodes are named {name}: give an id"
        raise ApiError(HttpError(400, "ambiguous_node", message))
    if not found:
        require_own_node(context, name)
        found = [parts] if (parts := _by_name(context, name)) is not None else []
    if not found:
        raise ApiError(HttpError(404, "unknown_node", f"no node is named {name}"))
    return found[0]


def _by_name(context: RequestContext, name: str) -> NodeParts | None:
    """A node of this or another hub of the cluster, by its id or name."""
    if (parts := node_parts(context, name)) is not None:
        return parts
    now = context.hub.clock()
    for parts in context.hub.shown.parts(now):
        if parts.node.name == name:
            require_own_node(context, parts.node.node_id)
            return parts
    return None


def booking_owner(context: RequestContext, named: str | None) -> str:
    """Whom a booking is for; raise `ApiError` if the asker may not book for them."""
    if named is not None and named != context.person:
        if not is_admin(context):
            message = "only an admin may book for somebody else"
            raise ApiError(HttpError(403, "forbidden", message))
        owner = sanitize_text(named, 64)
        if not owner:
            raise ApiError(HttpError(400, "bad_body", "the owner has no printable name"))
        return owner
    if context.person is None:
        raise ApiError(_NOBODY)
    return context.person


def may_change(context: RequestContext, one: Reservation) -> bool:
    """Whether the asker may change a booking: its owner, or an admin."""
    return context.identity is not None and may_edit(context.identity, one.owner)


def is_admin(context: RequestContext) -> bool:
    """Whether the asker is an admin."""
    return context.identity is not None and context.identity.role == "admin"


def vouching_node(context: RequestContext) -> str | None:
    """The id of the node whose agent vouches for the asker; `None` for one who logged in."""
    identity = context.identity
    return identity.node_id if identity is not None and identity.auth_method == "agent" else None


def node_parts(context: RequestContext, node_id: str) -> NodeParts | None:
    """The node of this id, if there is one."""
    return context.hub.shown.node_parts(node_id, context.hub.clock())


def count_gpus(parts: NodeParts | None) -> int | None:
    """How many GPUs a node has; `None` if that is not known."""
    # A node that has never reported has no GPUs that could be counted.
    return len(parts.gpus) or None if parts is not None else None


def in_the_way(
    context: RequestContext, one: Reservation, parts: NodeParts | None
) -> tuple[str, ...]:
    """Who uses GPUs that a booking needs, if it has begun."""
    is_now = one.starts_at <= context.hub.clock() < one.ends_at
    return people_in_the_way(parts, one.owner, one.gpus) if is_now and parts is not None else ()


def closed_text(context: RequestContext, one: Reservation) -> str | None:
    """Who has closed the node, or GPUs of it, into the time of a booking."""
    now = context.hub.clock()
    for closing in context.hub.fleet.views.closings_of(one.node_id):
        if not closing.is_over(now) and (closing.until is None or closing.until > one.starts_at):
            text = describe_closing(closing, now)
            return text if closing.uuid is None else f"in part {text}"
    return None


def _shown_booking(parts: NodeParts | None, one: Reservation) -> NodeBooking | None:
    bookings = () if parts is None else parts.node.bookings
    return next((shown for shown in bookings if shown.id == one.id), None)
