"""TLS to a real server with a certificate of its own making: pinned, changed, not trusted."""

import datetime
import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleet_smi.client.connection import Connection
from fleet_smi.errors import Refused, Undecodable, Unreachable

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers every question with "ok", over TLS or not, until it is closed."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
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
        sock.settimeout(5)
        if self._context is None:
            sock.recv(1 << 16)
            sock.sendall(ANSWER)
            return
        with self._context.wrap_socket(sock, server_side=True) as wrapped:
            while wrapped.recv(1 << 16):
                wrapped.sendall(ANSWER)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def self_signed(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's side of TLS, and the fingerprint of what it shows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "hub.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    shown = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    return context, f"sha256:{shown}"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a hub with a certificate of its own, and its fingerprint."""
    context, fingerprint = self_signed(tmp_path)
    server = Server(context)
    yield f"https://127.0.0.1:{server.port}", fingerprint
    server.close()


def test_the_pinned_certificate_is_enough(hub: tuple[str, str]) -> None:
    connection = Connection(hub[0], fingerprint=hub[1], token="secret")
    assert [connection.request("GET", "/").body for _ in range(2)] == [b"ok", b"ok"]
    connection.close()


def test_another_certificate_than_the_pinned_one_is_refused(hub: tuple[str, str]) -> None:
    with pytest.raises(Refused, match="another certificate"):
        Connection(hub[0], fingerprint=f"sha256:{'0' * 64}").request("GET", "/")


def test_without_a_pin_only_a_trusted_certificate_will_do(hub: tuple[str, str]) -> None:
    with pytest.raises(Refused, match="--fingerprint"):
        Connection(hub[0]).request("GET", "/")


def test_a_hub_that_speaks_no_tls_is_told_so() -> None:
    server = Server(None)
    with pytest.raises((Undecodable, Unreachable)):
        Connection(f"https://127.0.0.1:{server.port}").request("GET", "/")
    server.close()
