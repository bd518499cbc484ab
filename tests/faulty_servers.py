"""Faulty TCP servers: one that never responds, one that sends a fixed response, or without end."""

import contextlib
import socket
import threading


class SilentServer:
    """Listens and never responds; clients connect by the kernel's backlog alone."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()


class EndlessServer:
    """Responds to every request with these bytes, then with the same piece without end.

    Without a piece it stops there, and leaves the connection open.
    """

    def __init__(self, head: bytes, piece: bytes = b"") -> None:
        self._head, self._piece = head, piece
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(ConnectionError):
                sock.recv(65536)
                sock.sendall(self._head)
                while self._piece:
                    sock.sendall(self._piece)
                sock.recv(1)  # until the client has closed it

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that is blocked in `accept`
        self._listener.close()
        self._thread.join()


class ScriptedServer:
    """Responds to each request on one connection with the next of these; then closes it.

    `requests` are those that came, over all connections.
    """

    def __init__(self, *connections: tuple[bytes, ...]) -> None:
        self._connections = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for responses in self._connections:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(ConnectionError):
                for response in responses:
                    if not sock.recv(65536):
                        break
                    self.requests += 1
                    sock.sendall(response)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class OneResponseServer:
    """Responds to one request with these bytes, valid or not."""

    def __init__(self, response: bytes) -> None:
        self._response = response
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.request = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        # The client may close as soon as it has seen enough, before all is sent.
        with sock, contextlib.suppress(ConnectionError):
            self.request = sock.recv(65536)
            sock.sendall(self._response)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that is blocked in `accept`
        self._listener.close()
        self._thread.join()
