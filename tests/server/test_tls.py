"""The self-signed certificate of the hub: created once, kept, pinned by its fingerprint."""

import logging
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fleet_smi.errors import StateError
from fleet_smi.server import tls
from fleet_smi.server.certificate_reload import TlsFiles
from fleet_smi.server.middleware import AllowedHosts, Message, Receive, SecurityMiddleware, Send
from fleet_smi.server.tls import ensure_self_signed, fingerprint_of, read_fingerprint
from tests.server.loopback import serve_app

NAMES = ["gpuhub", "gpuhub.lab.example", "127.0.0.1", "::1"]


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    """An app that answers everything."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_the_certificate_is_reused_across_restarts_and_new_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = ensure_self_signed(tmp_path, NAMES)
    with caplog.at_level(logging.WARNING):
        assert ensure_self_signed(tmp_path, NAMES) == first
        assert caplog.text == ""
        assert ensure_self_signed(tmp_path, [*NAMES, "10.0.0.7"]) == first
    assert "does not name 10.0.0.7" in caplog.text
    assert read_fingerprint(tmp_path) == first.fingerprint


def test_two_hubs_have_different_certificates(tmp_path: Path) -> None:
    assert read_fingerprint(tmp_path / "two") is None
    one, two = (ensure_self_signed(tmp_path / name, NAMES) for name in ("one", "two"))
    assert one.fingerprint != two.fingerprint


def test_only_its_owner_may_read_the_key(tmp_path: Path) -> None:
    made = ensure_self_signed(tmp_path, NAMES)
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["tls.pem"]


def test_the_certificate_names_the_hub_and_is_valid_for_ten_years(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(
        ensure_self_signed(tmp_path, NAMES).path.read_bytes()
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES[:2]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == NAMES[2:]
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc < now
    assert certificate.not_valid_after_utc > now + timedelta(days=3640)


def test_a_client_that_trusts_it_reaches_the_hub_and_sees_the_pinned_one(tmp_path: Path) -> None:
    made = ensure_self_signed(tmp_path, NAMES)
    guarded = SecurityMiddleware(hello, AllowedHosts("127.0.0.1"), tls=True)
    trusting = ssl.create_default_context(cafile=str(made.path))
    with (
        serve_app(guarded, TlsFiles(str(made.path), str(made.path))) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        trusting.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        shown = secure.getpeercert(binary_form=True)
        assert shown is not None
        assert fingerprint_of(shown) == made.fingerprint
        secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        response = secure.recv(65536)
    assert response.startswith(b"HTTP/1.1 204")
    assert b"strict-transport-security: max-age=" in response


def test_a_damaged_certificate_is_an_error_and_is_not_overwritten(tmp_path: Path) -> None:
    path = ensure_self_signed(tmp_path, NAMES).path
    other = ensure_self_signed(tmp_path / "other", NAMES).path
    key, mark, certificate = path.read_bytes().partition(b"-----BEGIN CERTIFICATE")
    _, _, foreign = other.read_bytes().partition(b"-----BEGIN CERTIFICATE")
    for content in (b"", b"junk", key, mark + certificate, key + mark + foreign):
        path.write_bytes(content)
        with pytest.raises(StateError, match=r"tls\.pem") as refused:
            ensure_self_signed(tmp_path, NAMES)
        assert "\n" not in str(refused.value)
        assert path.read_bytes() == content


def test_an_expired_certificate_is_not_silently_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_DAYS", -0.5)
    with pytest.raises(StateError, match=r"tls\.pem has expired.*new fingerprint"):
        ensure_self_signed(tmp_path, NAMES)
