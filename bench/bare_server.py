"""An HTTP server that does nothing: `bare_server.py uvicorn|httptools PORT`.

Started as a file. It reads the body of every request and answers `{}`: what HTTP alone costs, in
an ASGI application under uvicorn, or in a protocol on httptools and uvloop without one. It prints
a line when it listens; for each line on stdin it prints the requests and bytes of bodies so far.
"""

import asyncio
import socket
import sys
import threading
from typing import Any

import httptools
import uvicorn
import uvloop

_BACKLOG = 2048
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    b"x-content-type-options: nosniff\r\n\r\n{}"
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", b"2"),
    (b"x-content-type-options", b"nosniff"),
]


class Totals:
    """What was received."""

    requests = 0
    body_bytes = 0


async def application(_: Any, receive: Any, send: Any) -> None:
    """Read the body and answer `{}`."""
    more, size = True, 0
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    Totals.requests += 1
    Totals.body_bytes += size
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


class BareProtocol(asyncio.Protocol):
    """The least that a keep-alive HTTP server has to do."""

    transport: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        Totals.requests += 1
        Totals.body_bytes += len(body)
        self.transport.write(_ANSWER)


async def serve_uvicorn(listening: socket.socket) -> None:
    """Serve the application, configured like the server of the hub."""
    config = uvicorn.Config(
        application,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
    )
    await uvicorn.Server(config).serve(sockets=[listening])


async def serve_httptools(listening: socket.socket) -> None:
    """Serve the protocol."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(BareProtocol, sock=listening, backlog=_BACKLOG)
    await server.serve_forever()


def _print_totals() -> None:
    for _ in sys.stdin:
        print(Totals.requests, Totals.body_bytes, flush=True)


def main(kind: str, port: int) -> None:
    """Serve until killed."""
    listening = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    print("listening", flush=True)
    threading.Thread(target=_print_totals, daemon=True).start()
    uvloop.run({"uvicorn": serve_uvicorn, "httptools": serve_httptools}[kind](listening))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
