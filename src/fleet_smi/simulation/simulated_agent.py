"""A simulated agent: one node's connection to the hub, with at most one report in flight."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import NamedTuple

import msgspec

from fleet_smi.client.connection import parse_hub_url
from fleet_smi.client.responses import decode_error, decode_join_token
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.simulation.compact_replay import CompactReplay
from fleet_smi.simulation.counters import LoadCounters
from fleet_smi.simulation.http_client import RawConnection, RawResponse
from fleet_smi.simulation.scenario import BackfillPoint, FleetScenario
from fleet_smi.wire.credential_proof import PROPOSAL_HEADER
from fleet_smi.wire.packed_layout import PACKED_VERSION
from fleet_smi.wire.report import decode_receipt, encode_report, encode_snapshot

_CONNECT_TIMEOUT_SECONDS = 30.0
_MAX_SNAPSHOTS = 400  # per report; a hub accepts 500
_OK, _UNAUTHORIZED, _FORBIDDEN, _CONFLICT = 200, 401, 403, 409
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_NO_HUB = "0" * 16  # as long as the id of one


Backfill = Callable[[float], Sequence[BackfillPoint]]
"""Maps the current time to the past points to report first, oldest first."""


def no_backfill(_: float) -> Sequence[BackfillPoint]:
    """Report the present only."""
    return ()


class HubEndpoint(NamedTuple):
    """Address and TLS context of a hub."""

    host: str
    port: int
    base_path: str
    tls: SSLContext | None

    @classmethod
    def parse(cls, url: str) -> "HubEndpoint":
        """Parse a hub URL; raise `UsageError` if it is invalid."""
        scheme, host, port, base_path = parse_hub_url(url)
        if scheme == "http":
            return cls(host, port, base_path, None)
        from ssl import create_default_context

        return cls(host, port, base_path, create_default_context())

    def request_head(
        self, path: str, token: str | None, media_subtype: str, proposal: str | None = None
    ) -> bytes:
        """Return the request head up to the value of Content-Length."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        bearer = "" if token is None else f"Authorization: Bearer {token}\r\n"
        proposed = "" if proposal is None else f"{PROPOSAL_HEADER}: {proposal}\r\n"
        return (
            f"POST {self.base_path}{path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            f"{bearer}{proposed}Content-Type: application/{media_subtype}\r\nContent-Length: "
        ).encode()


class SimulatedAgent:
    """Sends one report at a time and retries those that were not acknowledged.

    One that the hub rejects for good is dropped and counted as failed. `on_lost` is called when
    the connection is lost, and should call `connect` again; `on_refused` when the hub rejects the
    credentials.
    """

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
        replay_seconds: float = 0.0,
        always_compact: bool = False,
    ) -> None:
        self._on_lost, self._on_refused = on_lost, on_refused
        self._scenario, self._index, self._hub, self._counters = scenario, index, hub, counters
        self._backfill, self._pending_points = backfill, list[BackfillPoint]()
        self._head = hub.request_head("/api/v1/reports", token, "msgpack")
        self._connection: RawConnection | None = None
        self._joined = False
        # The same at every attempt: the response to the one that succeeded may have been lost.
        self._proposal = f"fsmi_node_{os.urandom(32).hex()}"
        self._join_response: asyncio.Future[RawResponse] | None = None
        self._snapshots: list[bytes] = []
        self._latest: Snapshot | None = None
        self._has_credential = token is not None
        self._compact = CompactReplay(scenario, index, replay_seconds)
        self._always_compact = always_compact
        self._compact_at: float | None = None
        self._sent_at: float | None = None
        self._sequence = 0

    @property
    def is_awaiting_response(self) -> bool:
        """Whether a report is in flight."""
        return self._sent_at is not None

    @property
    def has_unacknowledged(self) -> bool:
        """Whether a report still has to be acknowledged."""
        return bool(self._snapshots) or self._compact_at is not None

    async def connect(self, join_token: str | None) -> None:
        """Connect, and join if needed; raise `Unreachable` or `Refused`."""
        node, hub = self._scenario.nodes[self._index], self._hub
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
                self._connection = await self._open(join_token)
        except OSError as error:
            raise Unreachable(f"hub {hub.host}:{hub.port}: {_reason(error)}", node.name) from None

    def send_report(self) -> None:
        """Send the next report, or again the one that was not acknowledged.

        Without a connection, or while a report is in flight, only count it as late. Close the
        connection while the node is silent by scenario.
        """
        now = time.time()
        if not self._scenario.is_reporting(self._index, now):
            self.close()
            return
        if self._connection is None or self._sent_at is not None:
            self._counters.late += 1
            return
        self._send(self._connection, self._next_compact(now) or self._full_report(now))

    def _send(self, connection: RawConnection, body: bytes) -> None:
        self._sent_at = time.perf_counter()
        self._counters.sent_bytes += len(body)
        connection.send_request(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))

    def _next_compact(self, now: float) -> bytes | None:
        """The next report, if it is a compact one."""
        if self._snapshots:
            return None
        body = self._compact.report(now, self._sequence + 1)
        if body is not None:
            self._sequence += 1
            self._compact_at = now
            self._counters.sent += 1
            self._counters.compact += 1
        return body

    def _full_report(self, now: float) -> bytes:
        # After a lost connection or a temporary error the same snapshots are sent again.
        if not self._snapshots:
            self._snapshots = self._next_snapshots(now)
            self._counters.sent += 1
        return encode_report(self._snapshots, now)

    def _send_in_full(self) -> None:
        """Make the compact report that is not acknowledged a full one, to be sent next."""
        self._compact.stop()
        if self._compact_at is not None:
            self._latest = self._scenario.snapshot(self._index, self._compact_at, self._sequence)
            self._snapshots, self._compact_at = [encode_snapshot(self._latest)], None

    def close(self) -> None:
        """Close the connection without calling `on_lost`; drop unacknowledged snapshots."""
        connection, self._connection, self._sent_at = self._connection, None, None
        self._snapshots, self._compact_at = [], None
        self._compact.stop()
        if connection is not None:
            connection.close()

    def _next_snapshots(self, now: float) -> list[bytes]:
        """Encode the next snapshots: first the backfill in chunks, then the present."""
        scenario, index = self._scenario, self._index
        if not self._sequence:
            self._pending_points = [
                point for point in self._backfill(now) if scenario.is_reporting(index, point.at)
            ]
        points, self._pending_points = (
            self._pending_points[:_MAX_SNAPSHOTS],
            self._pending_points[_MAX_SNAPSHOTS:],
        )
        if not self._pending_points:
            points.append(BackfillPoint(now, scenario.interval_seconds))
        encoded = []
        for at, interval_seconds in points:
            self._sequence += 1
            self._latest = scenario.snapshot(index, at, self._sequence, interval_seconds)
            encoded.append(encode_snapshot(self._latest))
        return encoded

    async def _open(self, join_token: str | None) -> RawConnection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: RawConnection(self._handle_response, self._handle_lost),
            self._hub.host,
            self._hub.port,
            ssl=self._hub.tls,
        )
        try:
            if join_token is not None and not self._joined:
                await self._join(connection, join_token)
        except BaseException:
            connection.close()
            raise
        # The hub may have closed it while the join was answered.
        if not connection.is_open:
            raise ConnectionResetError
        return connection

    async def _join(self, connection: RawConnection, join_token: str) -> None:
        node = self._scenario.nodes[self._index]
        body = msgspec.json.encode({"node_id": node.node_id, "name": node.name})
        head = self._hub.request_head("/api/v1/join", join_token, "json", self._proposal)
        self._join_response = asyncio.get_running_loop().create_future()
        try:
            connection.send_request(b"%s%d\r\n\r\n%s" % (head, len(body), body))
            response = await self._join_response
        finally:
            self._join_response = None
        if _is_retryable(response):
            raise Unreachable(
                f"the hub cannot accept the join now: {_error_text(response)}", node.name
            )
        if response.status != _OK:
            raise Refused(f"the hub rejected the join: {_error_text(response)}", node.name)
        self._head = self._hub.request_head(
            "/api/v1/reports", decode_join_token(response.body), "msgpack"
        )
        self._joined = self._has_credential = True

    def _handle_response(self, response: RawResponse) -> None:
        if self._join_response is not None:
            if not self._join_response.done():
                self._join_response.set_result(response)
            return
        sent_at, self._sent_at = self._sent_at, None
        if sent_at is None:
            return
        if response.status == _OK:
            self._counters.acknowledge(time.perf_counter() - sent_at)
            self._handle_acknowledgement(response)
            return
        if self._compact_at is not None:
            self._send_in_full()
            if response.status == _CONFLICT:
                self.send_report()
        # A retryable error leaves the snapshots in place for the next tick.
        elif not _is_retryable(response):
            self._snapshots = []
            self._counters.failed += 1
            if response.status in (_UNAUTHORIZED, _FORBIDDEN):
                name = self._scenario.nodes[self._index].name
                self._on_refused(
                    Refused(f"the hub rejected the report: {_error_text(response)}", name)
                )

    def _handle_acknowledgement(self, response: RawResponse) -> None:
        if self._compact_at is not None:
            self._compact_at = None  # its receipt says what that of the full report did
            return
        self._snapshots = []
        # Backfill is not paced: the next chunk follows immediately.
        if self._pending_points:
            self.send_report()
        elif self._has_credential and self._latest is not None:
            if self._always_compact:
                self._compact.begin(self._latest, _NO_HUB)
                return
            with suppress(Undecodable):
                receipt = decode_receipt(response.body)
                if PACKED_VERSION in receipt.versions:
                    self._compact.begin(self._latest, receipt.hub)

    def _handle_lost(self) -> None:
        if self._join_response is not None and not self._join_response.done():
            self._join_response.set_exception(ConnectionResetError())
        # `close` has cleared the connection before: a deliberate end is not a loss. Unacknowledged
        # snapshots stay, and are sent again after the reconnect.
        elif self._connection is not None:
            self._connection, self._sent_at = None, None
            self._send_in_full()
            self._on_lost(self)


def _is_retryable(response: RawResponse) -> bool:
    """Whether the request may succeed when retried."""
    return response.status == _TOO_MANY_REQUESTS or response.status >= _SERVER_ERROR


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is `fleet-smi hub` running?"
    return error.strerror or "timed out"


def _error_text(response: RawResponse) -> str:
    """Return the hub's error message."""
    error = decode_error(response.body)
    return f"status {response.status}" if error is None else error.message
