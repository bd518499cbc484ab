"""Security middleware: the check of the Host header, and security headers on every response.

There is no CORS: no page of another origin ever may read a response.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback, parse_address
from fleet_smi.server.http_error import Headers, HttpError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_MAX_ACCEPTED_HOSTS = 64
_MAX_HOST_BYTES = 262  # no host name with a port is longer
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)


def security_headers(*, tls: bool) -> Headers:
    """The headers that every response has."""
    headers = [
        (b"content-security-policy", _POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    if tls:
        headers.append((b"strict-transport-security", b"max-age=31536000"))
    return headers


class AllowedHosts:
    """The host names that this hub answers to, against DNS rebinding.

    A foreign page can let its own domain resolve to this hub and would then share its origin;
    so requests for any other name are refused. A bare IP address cannot be rebound: where the
    hub listens on all addresses of the machine, each of them is accepted.
    """

    def __init__(self, bind_host: str, names: Iterable[str] = ()) -> None:
        self._any_address = bind_host in WILDCARDS
        full = {_normalize(name) for name in (bind_host, *names)} - {""}
        # Also without the domain, as people on the same network type it.
        self._names = full | {name.partition(".")[0] for name in full if not parse_address(name)}
        self._accepted: set[bytes] = set()

    def check(self, headers: Headers) -> HttpError | None:
        """Return the error for a request to another host name, else `None`."""
        named = [value for name, value in headers if name == b"host"]
        if len(named) != 1:
            return HttpError(400, "bad_host", "the request must have one Host header")
        if named[0] in self._accepted:
            return None
        if not self._is_own_name(named[0]):
            return HttpError(
                421,
                "unknown_host",
                "this hub does not answer to that host name: add it to the setting `hub.hosts`",
            )
        # A cache, because agents send the same few values with every report. Bounded, because
        # where any address is accepted a sender can make up many.
        if len(self._accepted) < _MAX_ACCEPTED_HOSTS:
            self._accepted.add(named[0])
        return None

    def _is_own_name(self, host: bytes) -> bool:
        if len(host) > _MAX_HOST_BYTES:
            return False
        name = host_without_port(host.decode("latin-1"))
        if name in self._names or is_loopback(name):
            return True
        return self._any_address and parse_address(name) is not None


class SecurityMiddleware:
    """ASGI middleware that checks the host name and adds the security headers."""

    def __init__(self, app: AsgiApp, hosts: AllowedHosts, *, tls: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._headers = security_headers(tls=tls)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})  # no endpoint speaks WebSocket
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        refusal = self._hosts.check(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await send_error(refusal, send_with_headers)


async def send_error(error: HttpError, send: Send) -> None:
    """Send an error response over ASGI."""
    start = {"type": "http.response.start", "status": error.status, "headers": error.headers}
    await send(start)
    await send({"type": "http.response.body", "body": error.body})


def host_without_port(host: str) -> str:
    """The name or address in a Host header, in lower case and without brackets."""
    if host.startswith("["):
        return _normalize(host.partition("]")[0])
    name, _, port = host.rpartition(":")
    return _normalize(name if name and port.isdecimal() else host)


def _normalize(name: str) -> str:
    return name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")
