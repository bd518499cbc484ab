"""One node of a story: its connection to the hub, and the report that is still out."""

import asyncio
import time
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import NamedTuple

import msgspec

from fleet_smi.client.answers import refusal_in, token_in
from fleet_smi.client.connection import address_of
from fleet_smi.errors import DeliveryError, Refused, Unreachable
from fleet_smi.simulation.line import Answer, Line
from fleet_smi.simulation.story import Moment, Story
from fleet_smi.simulation.tally import Tally
from fleet_smi.wire.report import encode_report, encode_snapshot

_OPEN_SECONDS = 30.0
_MOST_AT_ONCE = 400
_OK, _UNKNOWN, _FORBIDDEN, _TOO_MANY, _ITS_FAULT = 200, 401, 403, 429, 500


Past = Callable[[float], Sequence[Moment]]
"""Which moments before now are told of at first, the oldest first."""


def nothing_before(_: float) -> Sequence[Moment]:
    """Only what is seen now is told."""
    return ()


class HubAddress(NamedTuple):
    """Where a hub listens, and how it is spoken to."""

    host: str
    port: int
    base: str
    tls: SSLContext | None

    @classmethod
    def parse(cls, url: str) -> "HubAddress":
        """The address in a URL; raise `UsageError` when there is none."""
        scheme, host, port, base = address_of(url)
        if scheme == "http":
            return cls(host, port, base, None)
        from ssl import create_default_context

        return cls(host, port, base, create_default_context())

    def request(self, path: str, token: str | None, kind: str) -> bytes:
        """The head of a request up to the length of its body."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        bearer = "" if token is None else f"Authorization: Bearer {token}\r\n"
        return (
            f"POST {self.base}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            f"{bearer}Content-Type: application/{kind}\r\nContent-Length: "
        ).encode()


class Reporter:
    """Reports when its turn comes, one report at a time; what is not taken is sent again."""

    def __init__(
        self,
        story: Story,
        index: int,
        hub: HubAddress,
        tally: Tally,
        *,
        lost: "Callable[[Reporter], None]",
        refused: Callable[[DeliveryError], None],
        token: str | None = None,
        past: Past = nothing_before,
    ) -> None:
        self._lost, self._refused = lost, refused
        self._story, self._index, self._hub, self._tally = story, index, hub, tally
        self._past, self._untold = past, list[Moment]()
        self._head = hub.request("/api/v1/reports", token, "msgpack")
        self._line: Line | None = None
        self._joined = False
        self._joining: asyncio.Future[Answer] | None = None
        self._snapshots: list[bytes] = []
        self._asked_at: float | None = None
        self._sequence = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a report of it is out."""
        return self._asked_at is not None

    @property
    def is_owing(self) -> bool:
        """Whether it has something that the hub has not taken."""
        return bool(self._snapshots)

    async def open(self, join_token: str | None) -> None:
        """Connect, and join if need be; raise `Unreachable` or `Refused`."""
        node, hub = self._story.nodes[self._index], self._hub
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                self._line = await self._opened(join_token)
        except OSError as error:
            raise Unreachable(f"hub {hub.host}:{hub.port}: {_why(error)}", node.name) from None

    def turn(self) -> None:
        """Report, unless the report before is still out or the node has fallen silent."""
        now = time.time()
        if not self._story.speaks(self._index, now):
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
        self._line.ask(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))

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
            self._untold = [each for each in self._past(now) if story.speaks(index, each.at)]
        told, self._untold = self._untold[:_MOST_AT_ONCE], self._untold[_MOST_AT_ONCE:]
        if not self._untold:
            told.append(Moment(now, story.interval_seconds))
        read = []
        for at, interval_seconds in told:
            self._sequence += 1
            snapshot = story.snapshot(index, at, self._sequence, interval_seconds)
            read.append(encode_snapshot(snapshot))
        return read

    async def _opened(self, join_token: str | None) -> Line:
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: Line(self._answered, self._gone),
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

    async def _join(self, line: Line, join_token: str) -> None:
        node = self._story.nodes[self._index]
        body = msgspec.json.encode({"node_id": node.node_id, "name": node.name})
        head = self._hub.request("/api/v1/join", join_token, "json")
        self._joining = asyncio.get_running_loop().create_future()
        try:
            line.ask(b"%s%d\r\n\r\n%s" % (head, len(body), body))
            answer = await self._joining
        finally:
            self._joining = None
        if _is_not_now(answer):
            raise Unreachable(f"the hub does not let it join now: {_words(answer)}", node.name)
        if answer.status != _OK:
            raise Refused(f"the hub does not let it join: {_words(answer)}", node.name)
        self._head = self._hub.request("/api/v1/reports", token_in(answer.body), "msgpack")
        self._joined = True

    def _answered(self, answer: Answer) -> None:
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
                self.turn()
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


def _is_not_now(answer: Answer) -> bool:
    """Whether the hub may well take the same thing later."""
    return answer.status == _TOO_MANY or answer.status >= _ITS_FAULT


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; is `fleet-smi hub` running?"
    return error.strerror or "no answer"


def _words(answer: Answer) -> str:
    """What the hub says against it."""
    refusal = refusal_in(answer.body)
    return f"status {answer.status}" if refusal is None else refusal.message
