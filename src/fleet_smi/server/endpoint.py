"""The declaration of an HTTP endpoint: path, required rights, query, body and response.

Routing, validation, authorization and the OpenAPI document are all made from it.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from fleet_smi.hub.credentials import Identity
from fleet_smi.hub.hub import Hub
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.views import (
    FleetParts,
    NodeParts,
    summarize_nodes,
    summarize_parts,
)
from fleet_smi.server.auth import Action
from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.services import Services
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.server.vouching import vouched_identity

_T = TypeVar("_T")


class Endpoint(Struct, frozen=True, kw_only=True):
    """One endpoint; `query`, `body` and `response` are types that requests are checked against.

    `required_action` is what the client must be allowed to do; `None` where the handler checks
    that itself. `extra_statuses` are those that do not follow from the other fields.
    """

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    summary: str
    required_action: Action | None
    handler: Callable[["RequestContext"], Awaitable[Response]]
    query: type[Struct] | None = None
    body: Any = None
    request_media_types: tuple[str, ...] = ("application/json",)
    response: Any = None
    response_media_types: tuple[str, ...] = ("application/json",)
    status: int = 200
    extra_statuses: tuple[int, ...] = ()


class ApiError(Exception):
    """Raised by a handler to answer with an error."""

    def __init__(self, http_error: HttpError) -> None:
        super().__init__(http_error.message)
        self.http_error = http_error


def authorize_request(request: Request, services: Services, action: Action) -> Identity:
    """Return who sent the request; raise `ApiError` unless they may do this."""
    peer = "" if request.client is None else request.client.host
    headers = request.scope["headers"]
    identity = services.access.authenticate(headers, peer, request.method)
    if isinstance(identity, Identity):
        identity = vouched_identity(identity, headers, request.method, request.scope["path"])
    if isinstance(identity, HttpError):
        raise ApiError(identity)
    refusal = services.access.authorize(identity, action)
    if refusal is not None:
        raise ApiError(refusal)
    return identity


class RequestContext:
    """One authorized request, with its parsed query and body."""

    def __init__(
        self, request: Request, services: Services, identity: Identity | None, query: Any, body: Any
    ) -> None:
        self.services = services
        self.hub = services.hub
        self.identity = identity
        self.query = query
        self.body = body
        self.path_params: dict[str, str] = request.path_params
        self.request = request

    @property
    def peer(self) -> str:
        """The address at the other end of the connection."""
        client = self.request.client
        return "" if client is None else client.host

    @property
    def person(self) -> str | None:
        """Who sent the request, where that is known and not only claimed."""
        return None if self.identity is None else self.identity.person

    @property
    def is_still_authorized(self) -> bool:
        """Whether the credentials are still valid: a stream outlives sessions and tokens."""
        request, access = self.request, self.services.access
        current = access.authenticate(request.scope["headers"], self.peer, request.method)
        return current == self.identity

    @property
    def command_visibility(self) -> CommandVisibility:
        """How much of a command line the client may see."""
        admin = self.identity is not None and self.identity.role == "admin"
        return self.services.commands_for_admins if admin else self.services.commands_for_viewers

    def header(self, name: str) -> str:
        """A header of the request, empty if it was not sent."""
        return str(self.request.headers.get(name, ""))

    @property
    def accepts_gzip(self) -> bool:
        """Whether the client accepts gzip."""
        return self.accepts_encoding("gzip")

    def accepts_encoding(self, coding: str) -> bool:
        """Whether the client accepts this coding; `gzip;q=0` says that it does not."""
        offers = self.header("accept-encoding").replace(" ", "").lower().split(",")
        weights = dict(offer.partition(";q=")[::2] for offer in offers)
        return coding in weights and not re.fullmatch(r"0[.0]*", weights[coding])

    async def fleet_view(self) -> FleetView:
        """The fleet as the client may see it, with every change made before the request."""
        # One view per visibility, not per client: all with equal rights share it.
        build = partial(_build_view, self.hub, self.command_visibility, self.services.backpressure)
        return await self.services.cache.get_or_compute(self.command_visibility, build)

    async def fleet_parts(self) -> FleetParts:
        """The fleet in parts, with every change made before the request.

        They have command lines in full: a view that is sent must be masked (`masked_view`).
        """
        return await _cached_parts(self.services)

    def masked_view(self, parts: NodeParts) -> NodeView:
        """A node as the client may see it."""
        return mask_commands(self.hub.fleet.views.build(parts), self.command_visibility)

    async def node_view(self, node_id: str) -> NodeView | None:
        """One node as the client may see it; `None` if there is none of that id."""
        view = await self.hub.node_detail(node_id)
        return None if view is None else mask_commands(view, self.command_visibility)


async def _build_view(
    hub: Hub, commands: CommandVisibility, backpressure: Backpressure
) -> FleetView:
    now = hub.clock()
    nodes = [
        mask_commands(node, commands)
        async for node in iterate_cooperatively(hub.shown.nodes(now), backpressure)
    ]
    return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=tuple(nodes))


async def _collect_parts(hub: Hub, backpressure: Backpressure) -> FleetParts:
    now = hub.clock()
    nodes = [parts async for parts in iterate_cooperatively(hub.shown.parts(now), backpressure)]
    return FleetParts(taken_at=now, summary=summarize_parts(nodes), nodes=tuple(nodes))


async def _cached_parts(services: Services) -> FleetParts:
    build = partial(_collect_parts, services.hub, services.backpressure)
    return await services.cache.get_or_compute("parts", build)


async def cached_nodes(services: Services) -> Sequence[NodeParts]:
    """Every node in parts, with every change made before the call."""
    return (await _cached_parts(services)).nodes


def unset_to_none(value: _T | UnsetType) -> _T | None:
    """The value of a query parameter, `None` if it was not given."""
    # Parameters default to UNSET, not to None: msgspec would read the text "null" as None.
    return None if value is UNSET else value


def json_response(value: Any, status: int = 200) -> Response:
    """A response with any struct of the model as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")
