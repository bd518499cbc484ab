"""A recording hub on a real socket, for tests of senders."""

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import uvicorn

from fleet_smi.wire.credential_proof import PROPOSAL_HEADER
from fleet_smi.wire.report import Receipt, Report, decode_report

JOIN_TOKEN = "join-me"


class RecordingHub:
    """Accepts every report, unless `statuses` or `join_statuses` has a status for the next.

    Like a hub it never replaces a credential: a node joins again only with the one it proposed.
    """

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.tokens: list[str | None] = []
        self.statuses: list[int] = []
        self.join_statuses: list[int] = []
        self.issued_tokens: dict[str, str] = {}
        self.join_responses_to_lose: set[str] = set()
        self.open_to_all = True

    @property
    def sequences(self) -> dict[str, list[int]]:
        """Received sequence numbers per node, in order."""
        sequences: dict[str, list[int]] = {}
        for report in self.reports:
            for snapshot in report.snapshots:
                sequences.setdefault(snapshot.name, []).append(snapshot.sequence)
        return sequences

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        sent = {name.decode(): value.decode() for name, value in scope["headers"]}
        token = sent.get("authorization", "").removeprefix("Bearer ") or None
        if scope["path"] == "/api/v1/join":
            status, answer = self._join(msgspec.json.decode(body), token, sent.get(PROPOSAL_HEADER))
        else:
            status, answer = self._answer(body, token)
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, body: bytes, token: str | None) -> tuple[int, bytes]:
        if self.statuses:
            return self.statuses.pop(0), error_body("not now")
        report = decode_report(body)
        known = self.issued_tokens.get(report.snapshots[-1].node_id)
        if not self.open_to_all and token != (known or ""):
            return 401, error_body("unknown token")
        self.reports.append(report)
        self.tokens.append(token)
        return 200, msgspec.msgpack.encode(Receipt(hub="one"))

    def _join(
        self, who: dict[str, str], token: str | None, proposal: str | None
    ) -> tuple[int, bytes]:
        status = self.join_statuses.pop(0) if self.join_statuses else 200
        if status != 200:
            return status, error_body("not now")
        if token != JOIN_TOKEN:
            return 403, error_body("this join token is not good")
        own = proposal or secrets.token_hex()
        if self.issued_tokens.setdefault(who["node_id"], own) != own:
            return 403, error_body("this node id already has a credential")
        if who["name"] in self.join_responses_to_lose:
            self.join_responses_to_lose.remove(who["name"])
            return 503, error_body("the response was lost")
        return 200, msgspec.json.encode({"token": own})


def error_body(message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": "refused", "message": message}})


class _Server(uvicorn.Server):
    """A server that leaves the signal handlers of the test process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_listener(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def listener_url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _server(hub: RecordingHub) -> _Server:
    return _Server(
        uvicorn.Config(
            hub,
            loop="none",
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=0,
        )
    )


@asynccontextmanager
async def serve_hub(hub: RecordingHub, listener: socket.socket) -> AsyncIterator[None]:
    """Serve the hub on this socket; close its connections when the block ends."""
    server = _server(hub)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


@contextmanager
def serve_hub_in_thread(hub: RecordingHub) -> Iterator[str]:
    """Serve the hub in a thread, for subprocesses; yield its URL."""
    with open_listener() as listener:
        server = _server(hub)
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
        )
        thread.start()
        try:
            yield listener_url(listener)
        finally:
            server.should_exit = True
            thread.join()
