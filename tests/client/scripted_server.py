"""A server with scripted responses that records the requests of a client."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Self


class ScriptedServer:
    """Serves one connection after the other, each with its list of responses, one per request."""

    def __init__(self, *connections: Sequence[bytes]) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(connections,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # `close` alone does not wake a thread that is blocked in `accept`.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self, connections: Sequence[Sequence[bytes]]) -> None:
        with contextlib.suppress(OSError):  # closed by either end
            for responses in connections:
                sock, _ = self._listener.accept()
                with sock:
                    self._answer(sock, responses)

    def _answer(self, sock: socket.socket, responses: Sequence[bytes]) -> None:
        for response in responses:
            request = sock.recv(1 << 16)
            if not request:
                return
            self.requests.append(request)
            sock.sendall(response)


def http_response(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    """Return the bytes of an HTTP response."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""])
    return head.encode() + body
