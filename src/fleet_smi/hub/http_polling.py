"""One question put to many servers over HTTP, each with its own deadline, none delaying another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery
from fleet_smi.hub.sources.polling import PollTarget, poll_all, poll_on_interval
from fleet_smi.wire.report import MAX_REPORT_BYTES

_AT_ONCE = 256

ParseResponse = Callable[[str, bytes], Delivery]
"""The delivery in what a target answered; raise a `DeliveryError` when there is none."""


class PollRequest(Struct, frozen=True, kw_only=True):
    """What is asked, and in which words it is told that it was not answered.

    `refusals` are for the statuses by which a server says that it will not have us, and
    `failures` for those by which it is known to fail.
    """

    path: str
    default_port: int
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    refusal_messages: Mapping[int, str] = {}
    failure_messages: Mapping[int, str] = {}


class HttpPoller:
    """Asks every target once, or on its own ticks."""

    def __init__(
        self,
        source: str,
        targets: Sequence[str],
        request: PollRequest,
        parse: ParseResponse,
        timeout_seconds: float,
    ) -> None:
        self._source = source
        self._targets = tuple(targets)
        self._urls = {target: target_url(target, request) for target in targets}
        self._question = request
        self._read = parse
        self._timeout_seconds = timeout_seconds

    async def poll_once(self) -> Sequence[Delivery]:
        """One delivery of each target."""
        async with self._asking() as ask:
            return await poll_all(self._targets, ask)

    async def poll_until_cancelled(self, deliver: DeliverCallback, interval_seconds: float) -> None:
        """Ask each target on its own ticks until cancelled."""
        async with self._asking() as ask:
            await poll_on_interval(self._targets, ask, deliver, interval_seconds)

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[PollTarget]:
        # No redirects, no proxies of the environment: secrets go to these servers alone.
        async with httpx.AsyncClient(
            headers=dict(self._question.headers),
            follow_redirects=False,
            trust_env=False,
            timeout=self._timeout_seconds,
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=None),
        ) as client:
            yield lambda target: self._ask(client, target)

    async def _ask(self, client: httpx.AsyncClient, target: str) -> Delivery:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                body = await self._fetched(client, self._urls[target])
            return self._read(target, body)
        except (TimeoutError, httpx.TimeoutException):
            failure: DeliveryError = Unreachable(f"did not answer in {self._timeout_seconds:g} s")
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            failure = Unreachable(f"no agent answers there ({said})")
        except DeliveryError as error:
            failure = error
        named = type(failure)(failure.message, target)
        return Delivery(source=self._source, target=target, result=named)

    async def _fetched(self, client: httpx.AsyncClient, url: str) -> bytes:
        question = self._question
        async with client.stream(question.method, url, content=question.body) as answer:
            status = answer.status_code
            if status in question.refusal_messages:
                raise Refused(question.refusal_messages[status])
            if status != httpx.codes.OK:
                usual = f"answered with status {status}, not with a report"
                raise Undecodable(question.failure_messages.get(status, usual))
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MAX_REPORT_BYTES:
                    raise Undecodable(f"its report is larger than {MAX_REPORT_BYTES >> 20} MiB")
            return bytes(body)


def target_url(target: str, request: PollRequest) -> str:
    """Where a target is asked; raise `UsageError` for what is no address."""
    try:
        parts = urlsplit(target if "://" in target else f"http://{target}")
        host, port = parts.hostname or "", parts.port or request.default_port
    except ValueError:
        raise UsageError(f"{target!r} is no address of an agent: give host:port") from None
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise UsageError(f"{target!r} is no address of an agent: give host:port")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{request.path}"
