"""A real server on loopback for an ASGI app, and raw requests to it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fleet_smi.server.certificate_reload import LiveCertificate, TlsFiles
from fleet_smi.server.middleware import AsgiApp
from fleet_smi.server.uvicorn_server import bind_sockets, serve


class LoopbackResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def serve_app(app: AsgiApp, tls: TlsFiles | None = None) -> Iterator[int]:
    """Serve the app in a thread; yield its port."""
    (listening,) = bind_sockets("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    certificate = None if tls is None else LiveCertificate(tls)
    task = loop.create_task(serve(app, [listening], certificate))

    def run_loop() -> None:
        try:
            loop.run_until_complete(asyncio.wait([task]))
        finally:
            loop.close()

    thread = threading.Thread(target=run_loop)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        listening.close()


def send_raw_request(port: int, *headers: str, request: str = "GET / HTTP/1.1") -> LoopbackResponse:
    """Send exactly these lines, and read until the server closes the connection."""
    lines = [request, *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1"))
        response = b""
        while part := connection.recv(65536):
            response += part
    head, _, body = response.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in rest)
    return LoopbackResponse(
        int(first.split()[1]), {name.lower(): value for name, _, value in pairs}, body
    )
