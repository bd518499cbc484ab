"""The hub over HTTP: from a request to its endpoint, with every check that comes before."""

import logging
from importlib import import_module
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleet_smi.errors import FleetError, Refused, UsageError
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, authorize_request
from fleet_smi.server.http_error import INTERNAL_ERROR, HttpError
from fleet_smi.server.middleware import AllowedHosts, Message, Receive, SecurityMiddleware, Send
from fleet_smi.server.report_handler import ReportHandler
from fleet_smi.server.routes import ROUTES
from fleet_smi.server.services import Services
from fleet_smi.wire.error_text import describe_error

logger = logging.getLogger(__name__)
_MOST_BODY_BYTES = 64 << 10


class App:
    """ASGI. Reports go straight to their taker; all else passes the guard and the routes."""

    def __init__(self, services: Services, hosts: AllowedHosts) -> None:
        self.report_handler = ReportHandler(services, hosts)
        self._rest = SecurityMiddleware(_starlette(services), hosts, tls=services.tls)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == ReportHandler.path:
            await self.report_handler(scope, receive, send)
        else:
            await self._rest(scope, receive, send)


def load_endpoints() -> tuple[Endpoint, ...]:
    """Every endpoint there is, in the order of the list."""
    modules = map(import_module, ROUTES)
    return tuple(endpoint for module in modules for endpoint in module.ENDPOINTS)


def _starlette(services: Services) -> Starlette:
    app = Starlette(
        routes=[_route(endpoint, services) for endpoint in load_endpoints()],
        exception_handlers={HTTPException: _no_endpoint},
    )
    app.router.redirect_slashes = False  # what is not there is not somewhere else
    return app


def _route(endpoint: Endpoint, services: Services) -> Route:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint.handler(await _asked(endpoint, request, services))
        except ApiError as error:
            return _refused(error.http_error)
        except UsageError as error:
            return _refused(HttpError(400, "bad_request", str(error)))
        except Refused as error:
            return _refused(HttpError(403, "refused", error.message))
        except FleetError as error:
            return _refused(HttpError(503, "not_now", str(error)))
        except Exception:  # a bug in one endpoint must not be told to the asker, nor stop the hub
            logger.exception("bug in %s %s", endpoint.method, endpoint.path)
            return _refused(INTERNAL_ERROR)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _asked(endpoint: Endpoint, request: Request, services: Services) -> RequestContext:
    who = (
        None
        if endpoint.required_action is None
        else authorize_request(request, services, endpoint.required_action)
    )
    query = None if endpoint.query is None else _query(endpoint.query, request)
    body = None if endpoint.body is None else await _body(endpoint.body, request)
    return RequestContext(request, services, who, query, body)


def _query(kind: type[msgspec.Struct], request: Request) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(HttpError(400, "bad_query", describe_error(error))) from None


async def _body(kind: Any, request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ApiError(HttpError(415, "not_json", "send this as application/json"))
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BODY_BYTES:
            raise ApiError(
                HttpError(413, "too_large", f"at most {_MOST_BODY_BYTES >> 10} KiB are read")
            )
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise ApiError(HttpError(400, "bad_body", describe_error(error))) from None


def _refused(refusal: HttpError) -> Response:
    response = Response(refusal.body, refusal.status)
    response.raw_headers = refusal.headers
    return response


async def _no_endpoint(_: Request, error: Exception) -> Response:
    allow = (getattr(error, "headers", None) or {}).get("Allow")
    if allow is not None:
        words = f"this is asked for by {allow}"
        return _refused(HttpError(405, "wrong_method", words, allow=allow))
    return _refused(HttpError(404, "not_found", "there is nothing here; see /api/v1/openapi.json"))
