"""The hub's end of `pull`: nodes whose agents serve their latest report."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.hub.delivery import Deliver, Delivery, paced
from fleet_smi.hub.sources.polling import ask_all, keep_asking
from fleet_smi.wire.report import MOST_BYTES, decode_report

DEFAULT_PORT = 7071
_PATH = "/api/v1/report"
_HEADERS = {"Accept": "application/msgpack"}
_AT_ONCE = 256


class PullSource:
    """Asks many agents at once, each with its own deadline."""

    name = "pull"

    def __init__(
        self,
        targets: Sequence[str],
        *,
        token: str | None = None,
        interval_seconds: float = 2.0,
        timeout_seconds: float = 5.0,
    ) -> None:
        self.targets = tuple(targets)
        self._urls = {target: _url(target) for target in targets}
        self._token = token
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds

    async def look(self) -> Sequence[Delivery]:
        """Ask every agent once."""
        async with self._client() as client:
            return await ask_all(self.targets, lambda target: self._ask(client, target))

    async def run(self, deliver: Deliver) -> None:
        """Ask every agent on its own ticks until cancelled."""
        async with self._client() as client:
            await keep_asking(
                self.targets,
                lambda target: self._ask(client, target),
                deliver,
                self._interval_seconds,
            )

    def _client(self) -> httpx.AsyncClient:
        headers = (
            {**_HEADERS, "Authorization": f"Bearer {self._token}"} if self._token else _HEADERS
        )
        # No redirects, no proxies of the environment: the token goes to these agents alone.
        return httpx.AsyncClient(
            headers=headers,
            follow_redirects=False,
            trust_env=False,
            timeout=self._timeout_seconds,
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=None),
        )

    async def _ask(self, client: httpx.AsyncClient, target: str) -> Delivery:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                body = await _fetched(client, self._urls[target])
            report = decode_report(body)
            snapshot = report.snapshots[-1]
        except (TimeoutError, httpx.TimeoutException):
            words = f"did not answer in {self._timeout_seconds:g} s"
            return self._failed(target, Unreachable(words))
        except httpx.HTTPError as error:
            words = f"no agent answers there ({str(error) or type(error).__name__})"
            return self._failed(target, Unreachable(words))
        except DeliveryError as error:
            return self._failed(target, error)
        return Delivery(
            source=self.name,
            target=target,
            what=paced(snapshot),
            age_seconds=report.age_seconds(snapshot),
        )

    def _failed(self, target: str, error: DeliveryError) -> Delivery:
        named = type(error)(error.words, target)
        return Delivery(source=self.name, target=target, what=named)


async def _fetched(client: httpx.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url) as answer:
        if answer.status_code in (401, 403):
            raise Refused("refused the token: give the hub the agent's own in hub.pull_token")
        if answer.status_code != httpx.codes.OK:
            raise Undecodable(f"answered with status {answer.status_code}, not with a report")
        body = bytearray()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise Undecodable(f"its report is larger than {MOST_BYTES >> 20} MiB")
        return bytes(body)


def _url(target: str) -> str:
    try:
        parts = urlsplit(target if "://" in target else f"http://{target}")
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        raise UsageError(f"{target!r} is no address of an agent: give host:port") from None
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise UsageError(f"{target!r} is no address of an agent: give host:port")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{_PATH}"
