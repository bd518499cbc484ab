"""A small real hub for tests of the agent: keeps what it got, forgets, dies and comes back."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import Receipt, decode_report
from tests.machines import wait_until


class Sink:
    """Answers reports as the hub does; what is `kept` survives `die`, the rest does not.

    `reached` tells that somebody has asked; they wait while it `hangs`.
    """

    def __init__(self) -> None:
        self.kept: list[Snapshot] = []
        self.heard: list[Snapshot] = []
        self.batches: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.keeps = True
        self.interval_seconds: float | None = None
        self.refusal: tuple[int, str] | None = None
        self.unwanted: Callable[[Snapshot], bool] = lambda _: False
        self.reached = threading.Event()
        self.hangs = threading.Event()
        self.life = 1
        self.port = 0
        self._server: _Server | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hangs.clear()
        self.die()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, at the same address as before."""
        self._server = _Server(self, self.port)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()

    def die(self) -> None:
        """End at once: connections are cut, and what was not kept is forgotten."""
        server, self._server = self._server, None
        if server is not None:
            server.end()
        self.heard = list(self.kept)
        self.life += 1

    def sequences(self, run_id: str | None = None) -> set[int]:
        """What it knows of one run, or of all."""
        return {each.sequence for each in self.heard if run_id in (None, each.run_id)}

    def take(self, path: str, authorization: str, body: bytes) -> tuple[int, Any]:
        self.asked.append((path, authorization))
        if self.refusal is not None:
            status, code = self.refusal
            return status, {"error": {"code": code, "message": f"said {code}"}}
        if path == "/api/v1/join":
            return 200, {"token": f"own-token-of-{msgspec.json.decode(body)['node_id']}"}
        snapshots = decode_report(body).snapshots
        if any(self.unwanted(each) for each in snapshots):
            return 422, {"error": {"code": "undecodable", "message": "not a report"}}
        self.batches.append(len(snapshots))
        self.heard += snapshots
        if self.keeps:
            self.kept = list(self.heard)
        last = snapshots[-1]
        kept = [each.sequence for each in self.kept if each.run_id == last.run_id]
        return 200, Receipt(
            hub=f"life {self.life}",
            kept=max(kept, default=None),
            interval_seconds=self.interval_seconds,
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, sink: Sink, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sink = sink
        self.open: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.open.append(connection)
        return connection, address

    def end(self) -> None:
        self.shutdown()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """A connection that was cut is what the test wanted."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sink = self.server.sink
        sink.reached.set()
        wait_until(lambda: not sink.hangs.is_set(), seconds=60.0)
        status, answer = sink.take(self.path, self.headers.get("Authorization", ""), body)
        data = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Tests speak for themselves."""
