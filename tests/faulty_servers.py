"""Faulty TCP servers: one that never responds, one that sends a fixed response."""

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
