"""What every request passes before anything else: the Host it names, and what browsers are told.

There is no CORS: no other origin ever gets an answer that its page may read.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback, parse_address
from fleet_smi.server.http_error import Headers, HttpError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_MOST_KNOWN_HOSTS = 64
_MOST_HOST_BYTES = 262
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)


def security_headers(*, tls: bool) -> Headers:
    """What goes with every answer."""
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
    """The names by which this hub may be called.

    A page elsewhere can let its own name point here (DNS rebinding) and would then be this
    hub's origin; so a name that is not ours is refused. Bare addresses cannot be rebound:
    where the hub listens on all of the machine's, any of them will do.
    """

    def __init__(self, bind_host: str, names: Iterable[str] = ()) -> None:
        self._any_address = bind_host in WILDCARDS
        full = {_bare(name) for name in (bind_host, *names)} - {""}
        self._names = full | {name.partition(".")[0] for name in full if not parse_address(name)}
        self._known: set[bytes] = set()

    def check(self, headers: Headers) -> HttpError | None:
        """Why a request with these headers is not for this hub; `None` when it is."""
        named = [value for name, value in headers if name == b"host"]
        if len(named) != 1:
            return HttpError(400, "bad_host", "the request must have one Host header")
        if named[0] in self._known:
            return None
        if not self._is_ours(named[0]):
            return HttpError(
                421,
                "unknown_host",
                "this hub is not called that: add the name to its setting `hub.hosts`",
            )
        if len(self._known) < _MOST_KNOWN_HOSTS:
            self._known.add(named[0])
        return None

    def _is_ours(self, host: bytes) -> bool:
        if len(host) > _MOST_HOST_BYTES:
            return False
        name = _bare(_without_port(host.decode("latin-1")))
        if name in self._names or is_loopback(name):
            return True
        return self._any_address and parse_address(name) is not None


class SecurityMiddleware:
    """ASGI: refuses what is not for this hub, and adds the security headers to every answer."""

    def __init__(self, app: AsgiApp, hosts: AllowedHosts, *, tls: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._headers = security_headers(tls=tls)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})  # nothing here speaks it
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        refusal = self._hosts.check(scope["headers"])
        if refusal is None:
            await self._app(scope, receive, send_guarded)
        else:
            await send_error(refusal, send_guarded)


async def send_error(error: HttpError, send: Send) -> None:
    """Answer with the refusal."""
    start = {"type": "http.response.start", "status": error.status, "headers": error.headers}
    await send(start)
    await send({"type": "http.response.body", "body": error.body})


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


def _bare(name: str) -> str:
    return name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")
