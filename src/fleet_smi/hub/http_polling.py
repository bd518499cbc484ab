"""HTTP polling: the same request to many servers concurrently, each with its own timeout."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery
from fleet_smi.hub.async_timeout import timeout
from fleet_smi.hub.http_client import (
    ClosedEarly,
    HttpConnection,
    InvalidResponse,
    LargeResponses,
    ResponseTooLarge,
)
from fleet_smi.hub.sources.polling import PollTarget, poll_all, poll_on_interval
from fleet_smi.wire.report import MAX_INLINE_BYTES, MAX_REPORT_BYTES

_OK = 200
# Above `MAX_INLINE_BYTES`: a hundred servers that send 8 MiB each must not fill the memory.
_MAX_LARGE_RESPONSES = 8
_REST_PER_SECOND_OF_WORK = 4.0
_MAX_SHARES = 256
_MAX_REST_SECONDS = 60.0

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
        self._work = WorkShares(len(self._targets))

    async def poll_once(self) -> Sequence[Delivery]:
        """Return one delivery per target; a failure is its `result`, never raised."""
        with self._connections() as poll:
            return await poll_all(self._targets, poll)

    async def poll_until_cancelled(self, deliver: DeliverCallback, interval_seconds: float) -> None:
        """Poll each target on its own schedule until cancelled."""

        def deliver_measured(delivery: Delivery) -> None:
            started_at = time.thread_time()
            deliver(delivery)
            self._work.charge(delivery.target, time.thread_time() - started_at)

        async def poll_rested(target: str) -> Delivery:
            await asyncio.sleep(self._work.rest_seconds(target))
            return await poll(target)

        with self._connections() as poll:
            await poll_on_interval(
                self._source, self._targets, poll_rested, deliver_measured, interval_seconds
            )

    @contextmanager
    def _connections(self) -> Iterator[PollTarget]:
        # One per target, not a pool: a pool would be full of those that do not answer. No
        # redirects, no proxies of the environment: secrets go to these servers only.
        has_tls = any(url.startswith("https") for url in self._urls.values())
        tls = ssl.create_default_context() if has_tls else None
        large = LargeResponses(_MAX_LARGE_RESPONSES, MAX_INLINE_BYTES)
        connections = {
            target: HttpConnection(url, tls, large) for target, url in self._urls.items()
        }
        decoding = asyncio.Semaphore(1)
        try:
            yield lambda target: self._poll(connections[target], target, decoding)
        finally:
            for connection in connections.values():
                connection.close()

    async def _poll(
        self, connection: HttpConnection, target: str, decoding: asyncio.Semaphore
    ) -> Delivery:
        try:
            # For the whole response: a target that sends one byte at a time does not extend it.
            async with timeout(self._timeout_seconds):
                body, address = await self._fetch(connection, target)
            if len(body) <= MAX_INLINE_BYTES:
                delivery = self._parse_measured(target, body)
            else:
                delivery = await self._parse_in_thread(target, body, decoding)
            return replace(delivery, address=address)
        except TimeoutError:
            failure: DeliveryError = Unreachable(f"did not answer in {self._timeout_seconds:g} s")
        except (OSError, InvalidResponse) as error:
            failure = _to_failure(error)
        except DeliveryError as error:
            failure = error
        named = type(failure)(failure.message, target)
        return Delivery(source=self._source, target=target, result=named)

    async def _parse_in_thread(
        self, target: str, body: bytes, decoding: asyncio.Semaphore
    ) -> Delivery:
        """Parse a large response, one at a time: threads share one processor with the loop."""
        received_at = time.monotonic()
        async with decoding:
            delivery = await asyncio.to_thread(self._parse_measured, target, body)
        waited_seconds = time.monotonic() - received_at
        return replace(delivery, age_seconds=delivery.age_seconds + waited_seconds)

    def _parse_measured(self, target: str, body: bytes) -> Delivery:
        started_at = time.thread_time()
        try:
            return self._parse(target, body)
        finally:
            self._work.charge(target, time.thread_time() - started_at)

    async def _fetch(self, connection: HttpConnection, target: str) -> tuple[bytes, str | None]:
        request = self._request
        headers = {**request.headers, **self._target_headers.get(target, {})}
        response = await connection.request(request.method, headers, request.body, MAX_REPORT_BYTES)
        status = response.status
        if status in request.refusal_messages:
            raise Refused(request.refusal_messages[status])
        if status != _OK:
            default = f"answered with status {status}, not with a report"
            raise Undecodable(request.failure_messages.get(status, default))
        # Never decompressed: a few kilobytes can become gigabytes before a limit is checked.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Undecodable("its response is compressed, which the hub did not ask for")
        peer = connection.peer_address
        return response.body, None if peer is None else remote_address(peer)


class WorkShares:
    """Divides the time for decoding and applying responses among the targets.

    All of them together get a quarter of one processor. A target that took more than its part is
    polled later: many servers with responses that are costly to decode must not delay reports.
    """

    def __init__(self, target_count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Of very many targets each takes little, and may take more than its part.
        self._rest_per_second = _REST_PER_SECOND_OF_WORK * min(target_count, _MAX_SHARES)
        self._rests_until: dict[str, float] = {}

    def charge(self, target: str, work_seconds: float) -> None:
        """Note the time that a response of this target took, which ends now."""
        now = self._clock()
        until = max(now, self._rests_until.get(target, now)) + work_seconds * self._rest_per_second
        self._rests_until[target] = min(now + _MAX_REST_SECONDS, until)

    def rest_seconds(self, target: str) -> float:
        """Return how long the target is not to be polled; 0 for one that takes its part."""
        now = self._clock()
        return max(0.0, self._rests_until.get(target, now) - now)


def _to_failure(error: OSError | InvalidResponse) -> DeliveryError:
    """Describe why there is no response, each cause with its own remedy."""
    if isinstance(error, ResponseTooLarge):
        return Undecodable(f"its report is larger than {MAX_REPORT_BYTES >> 20} MiB")
    if isinstance(error, ClosedEarly):
        return Unreachable(str(error))
    if isinstance(error, InvalidResponse):
        return Undecodable(f"its answer is not usable HTTP ({error}): is the port right?")
    if isinstance(error, socket.gaierror):
        return Unreachable("its name cannot be resolved: check /etc/hosts and DNS")
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", None) or error.reason or "TLS failed"
        return Unreachable(f"no trusted TLS connection: {reason}")
    return Unreachable(f"nothing answers there ({error.strerror or type(error).__name__})")


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
