"""A small HTTP hub for tests of the agent, which can refuse, hang, lose reports and restart."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.compact import COMPACT_VERSION, builds_on, expand
from fleet_smi.wire.compact_codec import decode_compact, is_compact
from fleet_smi.wire.report import Receipt, Report, decode_report
from tests.machines import wait_until


class FakeHub:
    """Acknowledges reports as the hub does; only what is `durable` survives `kill`.

    `request_received` is set by any request; requests wait while `hanging` is set. With
    `is_older_version` it takes reports that do not continue what it has. While its history
    `is_full`, it records none; `make_room` requests them again.
    """

    def __init__(self) -> None:
        self.durable: list[Snapshot] = []
        self.received: list[Snapshot] = []
        self.batches: list[int] = []
        self.requests: list[tuple[str, str]] = []
        self.stores_reports = True
        self.is_older_version = False
        self.is_full = False
        self.reads_compact = False
        self.compact_count = 0
        self.latest: Snapshot | None = None
        self.interval_seconds: float | None = None
        self.error: tuple[int, str] | None = None
        self.rejects: Callable[[Snapshot], bool] = lambda _: False
        self.request_received = threading.Event()
        self.hanging = threading.Event()
        self.instance_number = 1
        self.port = 0
        self._server: _Server | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hanging.clear()
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Server(self, self.port)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()

    def kill(self) -> None:
        """Close all connections and forget what is not durable."""
        server, self._server = self._server, None
        if server is not None:
            server.end()
        self.received = list(self.durable)
        self.latest = self.durable[-1] if self.durable else None
        self.instance_number += 1  # receipts show agents that the hub has restarted

    def make_room(self) -> None:
        """Record reports again, and request those that were not."""
        self.is_full = False
        self.instance_number += 1

    def sequences(self, run_id: str | None = None) -> set[int]:
        """Return the received sequence numbers, of one run or of all."""
        return {each.sequence for each in self.received if run_id in (None, each.run_id)}

    def handle(self, path: str, authorization: str, body: bytes) -> tuple[int, Any]:
        self.requests.append((path, authorization))
        if self.error is not None:
            status, code = self.error
            return status, {"error": {"code": code, "message": f"said {code}"}}
        if path == "/api/v1/join":
            return 200, {"token": f"own-token-of-{msgspec.json.decode(body)['node_id']}"}
        instance, report = f"life {self.instance_number}", self._decode(body)
        if report is None:
            return 409, {"error": {"code": "need_full", "message": "send it in full"}}
        snapshots = report.snapshots
        if report.hub not in (None, instance) and not self.is_older_version:
            return 409, {"error": {"code": "out_of_order", "message": "reports are missing"}}
        if any(self.rejects(each) for each in snapshots):
            return 422, {"error": {"code": "undecodable", "message": "not a report"}}
        self.batches.append(len(snapshots))
        self.latest = snapshots[-1]
        self.received += () if self.is_full else snapshots
        if self.stores_reports:
            self.durable = list(self.received)
        last = snapshots[-1]
        durable = [each.sequence for each in self.durable if each.run_id == last.run_id]
        return 200, Receipt(
            hub=instance,
            kept=max(durable, default=None),
            interval_seconds=self.interval_seconds,
            recorded=not self.is_full,
            versions=(1, COMPACT_VERSION) if self.reads_compact else (),
        )

    def _decode(self, body: bytes) -> Report | None:
        """Decode a report of either version; `None` where the base of a compact one is missing."""
        if not is_compact(body):
            return decode_report(body)
        assert self.reads_compact, "a compact report to a hub that did not say it reads them"
        compact, base = decode_compact(body), self.latest
        if base is None or not builds_on(compact, base):
            return None
        self.compact_count += 1
        snapshots = (expand(base, compact),)
        return Report(
            version=COMPACT_VERSION, sent_at=compact.sent_at, hub=compact.hub, snapshots=snapshots
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, sink: FakeHub, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sink = sink
        self.open: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.open.append(connection)
        return connection, address

    def end(self) -> None:
        # `server_close` alone leaves open connections to their handler threads.
        self.shutdown()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Closed connections are part of the tests: print no traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sink = self.server.sink
        sink.request_received.set()
        wait_until(lambda: not sink.hanging.is_set(), seconds=60.0)
        status, answer = sink.handle(self.path, self.headers.get("Authorization", ""), body)
        data = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Keep the test output clean."""
