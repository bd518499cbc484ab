"""One node of a story: its connection to the hub, and the report that is still out."""

import asyncio
import time
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import NamedTuple

import msgspec

from fleet_smi.client.connection import parse_hub_url
from fleet_smi.client.responses import decode_error, decode_join_token
from fleet_smi.errors import DeliveryError, Refused, Unreachable
from fleet_smi.simulation.counters import LoadCounters
from fleet_smi.simulation.http_client import RawConnection, RawResponse
from fleet_smi.simulation.scenario import BackfillPoint, FleetScenario
from fleet_smi.wire.report import encode_report, encode_snapshot

_OPEN_SECONDS = 30.0
_MOST_AT_ONCE = 400
_OK, _UNKNOWN, _FORBIDDEN, _TOO_MANY, _ITS_FAULT = 200, 401, 403, 429, 500


Backfill = Callable[[float], Sequence[BackfillPoint]]
"""Which moments before now are told of at first, the oldest first."""


def no_backfill(_: float) -> Sequence[BackfillPoint]:
    """Only what is seen now is told."""
    return ()


class HubEndpoint(NamedTuple):
    """Where a hub listens, and how it is spoken to."""

    host: str
    port: int
    base_path: str
    tls: SSLContext | None

    @classmethod
    def parse(cls, url: str) -> "HubEndpoint":
        """The address in a URL; raise `UsageError` when there is none."""
        scheme, host, port, base = parse_hub_url(url)
        if scheme == "http":
            return cls(host, port, base, None)
        from ssl import create_default_context

        return cls(host, port, base, create_default_context())

    def request_head(self, path: str, token: str | None, media_subtype: str) -> bytes:
        """The head of a request up to the length of its body."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        bearer = "" if token is None else f"Authorization: Bearer {token}\r\n"
        return (
            f"POST {self.base_path}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            f"{bearer}Content-Type: application/{media_subtype}\r\nContent-Length: "
        ).encode()


class SimulatedAgent:
    """Reports when its turn comes, one report at a time; what is not taken is sent again."""

    def __init__(
        self,
        scenario: FleetScenario,
        index: int,
        hub: HubEndpoint,
        counters: LoadCounters,
        *,
        on_lost: "Callable[[SimulatedAgent], None]",
        on_refused: Callable[[DeliveryError], None],
        token: str | None = None,
        backfill: Backfill = no_backfill,
    ) -> None:
        self._lost, self._refused = on_lost, on_refused
        self._story, self._index, self._hub, self._tally = scenario, index, hub, counters
        self._past, self._untold = backfill, list[BackfillPoint]()
        self._head = hub.request_head("/api/v1/reports", token, "msgpack")
        self._line: RawConnection | None = None
        self._joined = False
        self._joining: asyncio.Future[RawResponse] | None = None
        self._snapshots: list[bytes] = []
        self._asked_at: float | None = None
        self._sequence = 0

    @property
    def is_awaiting_response(self) -> bool:
        """Whether a report of it is out."""
        return self._asked_at is not None

    @property
    def has_unacknowledged(self) -> bool:
        """Whether it has something that the hub has not taken."""
        return bool(self._snapshots)

    async def connect(self, join_token: str | None) -> None:
        """Connect, and join if need be; raise `Unreachable` or `Refused`."""
        node, hub = self._story.nodes[self._index], self._hub
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                self._line = await self._opened(join_token)
        except OSError as error:
            raise Unreachable(f"hub {hub.host}:{hub.port}: {_why(error)}", node.name) from None

    def send_report(self) -> None:
        """Report, unless the report before is still out or the node has fallen silent."""
        now = time.time()
        if not self._story.is_reporting(self._index, now):
            self.close()
            return
        if self._line is None or self._asked_at is not None:
            self._tally.late += 1
            return
        if not self._snapshots:
            self._snapshots = self._read(now)
            self._tally.sent += 1
        body = encode_report(self._snapshots, now)
        self._asked_at = time.perf_counter()
        self._line.send_request(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))

    def close(self) -> None:
        """Let go of the connection, which is not lost, and of what was to be said."""
        line, self._line, self._asked_at = self._line, None, None
        self._snapshots = []
        if line is not None:
            line.close()

    def _read(self, now: float) -> list[bytes]:
        """What there is to tell: at first of the past, a part at a time, and then this moment."""
        story, index = self._story, self._index
        if not self._sequence:
            self._untold = [each for each in self._past(now) if story.is_reporting(index, each.at)]
        told, self._untold = self._untold[:_MOST_AT_ONCE], self._untold[_MOST_AT_ONCE:]
        if not self._untold:
            told.append(BackfillPoint(now, story.interval_seconds))
        read = []
        for at, interval_seconds in told:
            self._sequence += 1
            snapshot = story.snapshot(index, at, self._sequence, interval_seconds)
            read.append(encode_snapshot(snapshot))
        return read

    async def _opened(self, join_token: str | None) -> RawConnection:
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: RawConnection(self._answered, self._gone),
            self._hub.host,
            self._hub.port,
            ssl=self._hub.tls,
        )
        try:
            if join_token is not None and not self._joined:
                await self._join(line, join_token)
        except BaseException:
            line.close()
            raise
        if not line.is_open:
            raise ConnectionResetError
        return line

    async def _join(self, line: RawConnection, join_token: str) -> None:
        node = self._story.nodes[self._index]
        body = msgspec.json.encode({"node_id": node.node_id, "name": node.name})
        head = self._hub.request_head("/api/v1/join", join_token, "json")
        self._joining = asyncio.get_running_loop().create_future()
        try:
            line.send_request(b"%s%d\r\n\r\n%s" % (head, len(body), body))
            answer = await self._joining
        finally:
            self._joining = None
        if _is_not_now(answer):
            raise Unreachable(f"the hub does not let it join now: {_words(answer)}", node.name)
        if answer.status != _OK:
            raise Refused(f"the hub does not let it join: {_words(answer)}", node.name)
        self._head = self._hub.request_head(
            "/api/v1/reports", decode_join_token(answer.body), "msgpack"
        )
        self._joined = True

    def _answered(self, answer: RawResponse) -> None:
        if self._joining is not None:
            if not self._joining.done():
                self._joining.set_result(answer)
            return
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is None:
            return
        if answer.status == _OK:
            self._snapshots = []
            self._tally.acknowledge(time.perf_counter() - asked_at)
            if self._untold:
                self.send_report()
        elif not _is_not_now(answer):
            self._snapshots = []
            self._tally.failed += 1
            if answer.status in (_UNKNOWN, _FORBIDDEN):
                name = self._story.nodes[self._index].name
                self._refused(Refused(f"the hub refuses its report: {_words(answer)}", name))

    def _gone(self) -> None:
        if self._joining is not None and not self._joining.done():
            self._joining.set_exception(ConnectionResetError())
        elif self._line is not None:
            self._line, self._asked_at = None, None
            self._lost(self)


def _is_not_now(answer: RawResponse) -> bool:
    """Whether the hub may well take the same thing later."""
    return answer.status == _TOO_MANY or answer.status >= _ITS_FAULT


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; is `fleet-smi hub` running?"
    return error.strerror or "no answer"


def _words(answer: RawResponse) -> str:
    """What the hub says against it."""
    refusal = decode_error(answer.body)
    return f"status {answer.status}" if refusal is None else refusal.message
