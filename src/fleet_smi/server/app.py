"""The ASGI application of the hub: routing, validation of requests, errors as responses."""

import logging
import time
from importlib import import_module
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleet_smi.errors import FleetError, Refused, UsageError
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, authorize_request
from fleet_smi.server.http_error import INTERNAL_ERROR, HttpError
from fleet_smi.server.middleware import AllowedHosts, Message, Receive, SecurityMiddleware, Send
from fleet_smi.server.refusal_limit import RefusalLimiter, RefusalMiddleware
from fleet_smi.server.report_handler import ReportHandler
from fleet_smi.server.routes import ROUTES
from fleet_smi.server.services import Services
from fleet_smi.wire.error_text import describe_error

logger = logging.getLogger(__name__)
_MAX_BODY_BYTES = 64 << 10
_CUT_SHORT = HttpError(400, "cut_short", "the connection ended before the request did")


class App:
    """Sends reports straight to their handler and everything else through middleware and routes."""

    def __init__(self, services: Services, hosts: AllowedHosts) -> None:
        refusals = RefusalLimiter(time.monotonic)
        self.report_handler = ReportHandler(services, hosts, refusals)
        self.activity = services.activity
        self._base_path = services.base_path
        self._routes = RefusalMiddleware(
            SecurityMiddleware(_starlette(services), hosts, tls=services.tls),
            refusals,
            lambda scope: services.access.client_address(scope["headers"], _peer(scope)),
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.activity.begun += 1
        try:
            await self._handle(scope, receive, send)
        finally:
            self.activity.ended += 1

    async def _handle(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._base_path and scope["type"] == "http":
            if scope["path"] == self._base_path:
                # The page names its files relative to a folder.
                redirect = RedirectResponse(f"{self._base_path}/", 308)
                await redirect(scope, receive, send)
                return
            scope = _strip_base_path(self._base_path, scope)
        if scope["type"] == "http" and scope["path"] == ReportHandler.path:
            await self.report_handler(scope, receive, send)
        else:
            await self._routes(scope, receive, send)


def _peer(scope: Message) -> str:
    """The address at the other end of the connection."""
    peer: str = (scope.get("client") or ("",))[0]
    return peer


def _strip_base_path(base_path: str, scope: Message) -> Message:
    """The request without `hub.base_path`, where the proxy in front has not removed it."""
    path: str = scope["path"]
    if not path.startswith(f"{base_path}/"):
        return scope
    return {**scope, "path": path.removeprefix(base_path), "raw_path": b""}


def load_endpoints() -> tuple[Endpoint, ...]:
    """Every endpoint of the modules in `ROUTES`, in that order."""
    modules = map(import_module, ROUTES)
    return tuple(endpoint for module in modules for endpoint in module.ENDPOINTS)


def _starlette(services: Services) -> Starlette:
    app = Starlette(
        routes=[_route(endpoint, services) for endpoint in load_endpoints()],
        exception_handlers={HTTPException: _routing_error},
    )
    app.router.redirect_slashes = False  # a wrong path is a 404, never a redirect
    return app


def _route(endpoint: Endpoint, services: Services) -> Route:
    async def respond(request: Request) -> Response:
        try:
            return await endpoint.handler(await _context(endpoint, request, services))
        # From the specific to the general: `Refused` and `UsageError` are `FleetError`s.
        except ApiError as error:
            return _error_response(error.http_error)
        except UsageError as error:
            return _error_response(HttpError(400, "bad_request", str(error)))
        except Refused as error:
            return _error_response(HttpError(403, "refused", error.message))
        except FleetError as error:
            return _error_response(HttpError(503, "not_now", str(error)))
        except Exception:  # a bug in one endpoint must not leak its details, nor stop the hub
            logger.exception("bug in %s %s", endpoint.method, endpoint.path)
            return _error_response(INTERNAL_ERROR)

    return Route(endpoint.path, respond, methods=[endpoint.method])


async def _context(endpoint: Endpoint, request: Request, services: Services) -> RequestContext:
    # Authorized before the body is read: strangers cannot make the hub parse anything.
    identity = (
        None
        if endpoint.required_action is None
        else authorize_request(request, services, endpoint.required_action)
    )
    query = None if endpoint.query is None else _parse_query(endpoint.query, request)
    body = None if endpoint.body is None else await _parse_body(endpoint.body, request)
    return RequestContext(request, services, identity, query, body)


def _parse_query(query_type: type[msgspec.Struct], request: Request) -> Any:
    try:
        # Not strict: every value of a query is text, also of a number.
        return msgspec.convert(dict(request.query_params), query_type, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(HttpError(400, "bad_query", describe_error(error))) from None


async def _parse_body(body_type: Any, request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ApiError(HttpError(415, "not_json", "send this as application/json"))
    # Counted while it is read: Content-Length may be absent or wrong.
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                raise ApiError(
                    HttpError(413, "too_large", f"the body exceeds {_MAX_BODY_BYTES >> 10} KiB")
                )
    except ClientDisconnect:  # nobody is left to read the answer; it is no bug either
        raise ApiError(_CUT_SHORT) from None
    try:
        return msgspec.json.decode(bytes(body), type=body_type)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deep
        raise ApiError(HttpError(400, "bad_body", describe_error(error))) from None


def _error_response(error: HttpError) -> Response:
    response = Response(error.body, error.status)
    response.raw_headers = error.headers
    return response


async def _routing_error(_: Request, error: Exception) -> Response:
    """405 where the path exists for another method, otherwise 404."""
    allow = (getattr(error, "headers", None) or {}).get("Allow")
    if allow is not None:
        message = f"method not allowed: use {allow}"
        return _error_response(HttpError(405, "wrong_method", message, allow=allow))
    message = "no such endpoint: /api/v1/openapi.json lists them"
    return _error_response(HttpError(404, "not_found", message))
