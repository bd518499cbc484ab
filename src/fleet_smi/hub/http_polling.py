"""HTTP polling: the same request to many servers concurrently, each with its own timeout."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery
from fleet_smi.hub.sources.polling import PollTarget, poll_all, poll_on_interval
from fleet_smi.wire.report import MAX_INLINE_BYTES, MAX_REPORT_BYTES

_MAX_CONNECTIONS = 256

ParseResponse = Callable[[str, bytes], Delivery]
"""Parse the response of a target into a delivery; raise a `DeliveryError` if it is none."""


class PollRequest(Struct, frozen=True, kw_only=True):
    """The request, and the messages for its error statuses.

    `refusal_messages` are for statuses that reject the credentials of the hub,
    `failure_messages` for statuses with a known cause.
    """

    path: str
    default_port: int
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    refusal_messages: Mapping[int, str] = {}
    failure_messages: Mapping[int, str] = {}


class HttpPoller:
    """Polls every target once, or repeatedly on its own schedule."""

    def __init__(
        self,
        source: str,
        targets: Sequence[str],
        request: PollRequest,
        parse: ParseResponse,
        timeout_seconds: float,
        target_headers: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`target_headers` are for single targets, and sent to no other."""
        self._target_headers = target_headers or {}
        self._source = source
        self._targets = tuple(targets)
        self._urls = {target: target_url(target, request) for target in targets}
        self._request = request
        self._parse = parse
        self._timeout_seconds = timeout_seconds

    async def poll_once(self) -> Sequence[Delivery]:
        """Return one delivery per target; a failure is its `result`, never raised."""
        async with self._client() as poll:
            return await poll_all(self._targets, poll)

    async def poll_until_cancelled(self, deliver: DeliverCallback, interval_seconds: float) -> None:
        """Poll each target on its own schedule until cancelled."""
        async with self._client() as poll:
            await poll_on_interval(self._source, self._targets, poll, deliver, interval_seconds)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[PollTarget]:
        # No redirects, no proxies of the environment: secrets go to these servers only.
        async with httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._request.headers},
            follow_redirects=False,
            trust_env=False,
            timeout=self._timeout_seconds,
            limits=httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=None),
        ) as client:
            yield lambda target: self._poll(client, target)

    async def _poll(self, client: httpx.AsyncClient, target: str) -> Delivery:
        try:
            # For the whole response: the timeout of httpx is per read, and a target that sends
            # one byte at a time would never exceed it.
            async with asyncio.timeout(self._timeout_seconds):
                body, address = await self._fetch(client, target)
            if len(body) > MAX_INLINE_BYTES:
                delivery = await asyncio.to_thread(self._parse, target, body)
            else:
                delivery = self._parse(target, body)
            return replace(delivery, address=address)
        except (TimeoutError, httpx.TimeoutException):
            failure: DeliveryError = Unreachable(f"did not answer in {self._timeout_seconds:g} s")
        except httpx.HTTPError as error:
            failure = Unreachable(_reason(error))
        except DeliveryError as error:
            failure = error
        named = type(failure)(failure.message, target)
        return Delivery(source=self._source, target=target, result=named)

    async def _fetch(self, client: httpx.AsyncClient, target: str) -> tuple[bytes, str | None]:
        request, url = self._request, self._urls[target]
        headers = self._target_headers.get(target)
        async with client.stream(
            request.method, url, content=request.body, headers=headers
        ) as response:
            status = response.status_code
            if status in request.refusal_messages:
                raise Refused(request.refusal_messages[status])
            if status != httpx.codes.OK:
                default = f"answered with status {status}, not with a report"
                raise Undecodable(request.failure_messages.get(status, default))
            # Never decompressed: a few kilobytes can become gigabytes before a limit is checked.
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.strip().lower() not in ("", "identity"):
                raise Undecodable("its response is compressed, which the hub did not ask for")
            # Read in chunks and bounded: a target must not fill the memory of the hub.
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_REPORT_BYTES:
                    raise Undecodable(f"its report is larger than {MAX_REPORT_BYTES >> 20} MiB")
            return bytes(body), _peer_address(response)


def _peer_address(response: httpx.Response) -> str | None:
    stream = response.extensions.get("network_stream")
    peer = None if stream is None else stream.get_extra_info("server_addr")
    return remote_address(peer[0]) if peer else None


def _reason(error: httpx.HTTPError) -> str:
    """Describe why a target could not be reached; a name without an address has its own remedy."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "its name cannot be resolved: check /etc/hosts and DNS"
        cause = cause.__cause__ or cause.__context__
    return f"nothing answers there ({str(error) or type(error).__name__})"


def target_url(target: str, request: PollRequest) -> str:
    """The URL to poll a target at; raise `UsageError` if it is not an address."""
    try:
        parts = urlsplit(target if "://" in target else f"http://{target}")
        host, port = parts.hostname or "", parts.port or request.default_port
    except ValueError:
        raise UsageError(f"{target!r} is not the address of an agent: give host:port") from None
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise UsageError(f"{target!r} is not the address of an agent: give host:port")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{request.path}"
