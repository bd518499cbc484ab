"""TLS to a real server with a self-signed certificate: pinned, changed, not trusted."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import Refused, Undecodable, Unreachable
from fleet_smi.server.tls import ensure_self_signed

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Responds to every request with "ok", over TLS or not, and records the requests."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.requests: list[bytes] = []
        self._context = context
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
            try:
                self._answer(sock)
            except OSError:
                continue
            finally:
                sock.close()

    def _answer(self, sock: socket.socket) -> None:
        sock.settimeout(60)
        if self._context is None:
            sock.recv(1 << 16)
            sock.sendall(ANSWER)
            return
        with self._context.wrap_socket(sock, server_side=True) as wrapped:
            while request := wrapped.recv(1 << 16):
                self.requests.append(request)
                wrapped.sendall(ANSWER)

    @property
    def url(self) -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def plain() -> Iterator[Server]:
    server = Server(None)
    yield server
    server.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A hub with a certificate of its own, and its fingerprint."""
    own = ensure_self_signed(tmp_path, ["localhost", "127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.path)
    server = Server(context)
    yield server, own.fingerprint
    server.close()


def test_the_pinned_certificate_is_enough(secure: tuple[Server, str]) -> None:
    hub, fingerprint = secure
    connection = HubConnection(hub.url, fingerprint=fingerprint, token="secret")
    assert [connection.request("GET", "/").body for _ in range(2)] == [b"ok", b"ok"]
    connection.close()
    assert all(b"Authorization: Bearer secret\r\n" in request for request in hub.requests)


def test_a_server_with_another_certificate_gets_no_token(secure: tuple[Server, str]) -> None:
    hub, _ = secure
    connection = HubConnection(hub.url, fingerprint=f"sha256:{'0' * 64}", token="secret")
    with pytest.raises(Refused, match="another certificate than the pinned one"):
        connection.request("GET", "/")
    assert hub.requests == []


def test_without_a_pin_the_certificate_must_be_trusted(secure: tuple[Server, str]) -> None:
    hub, _ = secure
    with pytest.raises(Refused, match="--fingerprint"):
        HubConnection(hub.url, token="secret").request("GET", "/")
    assert hub.requests == []


def test_a_certificate_for_another_name_says_to_use_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ensure_self_signed(tmp_path, ["gpu.example.org"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.path)
    hub = Server(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(own.path))
    with pytest.raises(Refused, match="its certificate is not for the name localhost"):
        HubConnection(hub.url.replace("127.0.0.1", "localhost")).request("GET", "/")
    hub.close()


def test_https_to_an_http_server_is_an_error(plain: Server) -> None:
    url = plain.url.replace("http://", "https://")
    with pytest.raises(Undecodable, match="is it http instead of https"):
        HubConnection(url).request("GET", "/")


def test_http_to_an_https_server_is_an_error(secure: tuple[Server, str]) -> None:
    hub, _ = secure
    with pytest.raises((Undecodable, Unreachable), match=r"^hub http://"):
        HubConnection(hub.url.replace("https://", "http://")).request("GET", "/")
