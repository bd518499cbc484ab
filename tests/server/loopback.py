"""A real server on this machine for an ASGI app, and requests as they go over the wire."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fleet_smi.server.guard import App
from fleet_smi.server.running import Tls, bound, serve


class Answer(NamedTuple):
    """What came back: all of it."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def served(app: App, tls: Tls | None = None) -> Iterator[int]:
    """Serve the app from a thread of its own; its port."""
    listening = bound("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(app, [listening], tls))

    def live() -> None:
        try:
            loop.run_until_complete(asyncio.wait([task]))
        finally:
            loop.close()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        listening.close()


def ask(port: int, *headers: str, request: str = "GET / HTTP/1.1") -> Answer:
    """Send exactly these lines, and read until the other end closes."""
    lines = [request, *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in rest)
    return Answer(int(first.split()[1]), {name.lower(): value for name, _, value in pairs}, body)
