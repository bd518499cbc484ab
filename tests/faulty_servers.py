"""Servers for tests that do not answer as they should."""

import contextlib
import socket
import threading


class SilentServer:
    """Takes connections and never says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()


class OneResponseServer:
    """Answers one question with these bytes, whatever they are."""

    def __init__(self, response: bytes) -> None:
        self._said = response
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
        # Who asks may have heard enough before all is said.
        with sock, contextlib.suppress(ConnectionError):
            self.request = sock.recv(65536)
            sock.sendall(self._said)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
