"""`POST /get-status` of an agent, for gpu-cluster-monitor's main node; guarded by a password."""

from http import HTTPStatus

import msgspec

from fleet_smi.config.settings import AgentSettings
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.auth_throttle import AuthThrottle
from fleet_smi.node.http_server import AgentRequest, AgentResponse, error_response
from fleet_smi.node.outlets.serve import JSON_TYPE, AgentRoute


def create_routes(settings: AgentSettings) -> tuple[AgentRoute, ...]:
    """The route, or none where no password is set."""
    password = settings.read_get_status_password()
    return () if password is None else (get_status_route(password),)


def get_status_route(password: str) -> AgentRoute:
    """The route for this password, which replaces the agent's token here."""
    throttle = AuthThrottle("get-status")
    return AgentRoute(
        "POST",
        "/get-status",
        _encode,
        reject=lambda request: _reject(request, password, throttle),
    )


def _reject(request: AgentRequest, password: str, throttle: AuthThrottle) -> AgentResponse | None:
    """The error response to this request, or `None` if it has the right password."""
    if request.method != "POST":
        message = "send the password with POST"
        return error_response(HTTPStatus.METHOD_NOT_ALLOWED, message)
    # A form on another site can be posted here by a browser, but never with this content type.
    if request.content_type != JSON_TYPE:
        return error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send this as application/json")
    given = _password_in(request.body)
    if given is None:
        return error_response(HTTPStatus.BAD_REQUEST, 'send {"passwd": "the password"}')
    wait_seconds = throttle.check_password(request.address, given, password)
    if wait_seconds is None:
        return None
    # Zero is a wrong password that does not have to wait yet.
    if wait_seconds:
        message = "too many wrong passwords from this address: wait and try again"
        response = error_response(HTTPStatus.TOO_MANY_REQUESTS, message)
        return response._replace(retry_after_seconds=wait_seconds)
    return error_response(HTTPStatus.FORBIDDEN, "wrong password")


class _PasswordBody(msgspec.Struct):
    passwd: str


def _password_in(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_PasswordBody).passwd
    except (ValueError, RecursionError):
        return None


def _encode(snapshot: Snapshot) -> bytes:
    # Imported at the first request: the codec is large and main nodes are rare.
    from fleet_smi.compat.node_info.codec import encode_status

    return encode_status(snapshot)
