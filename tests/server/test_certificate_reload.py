"""A certificate that is renewed while the hub runs."""

import os
import pwd
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet_smi.errors import StateError, UsageError
from fleet_smi.server import certificate_reload
from fleet_smi.server.certificate_reload import LiveCertificate, TlsFiles
from fleet_smi.server.tls import ensure_self_signed, fingerprint_of
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    made = TlsFiles(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    renew(made, tmp_path / "first")
    return made


def renew(files: TlsFiles, folder: Path, *, key: bool = True) -> None:
    """Put another certificate in place, as certbot does; without `key`, only half of it."""
    pem = ensure_self_signed(folder, ["localhost"]).path.read_text()
    private, certificate = pem.split("-----BEGIN CERTIFICATE", 1)
    Path(files.certificate).write_text(f"-----BEGIN CERTIFICATE{certificate}")
    if key:
        Path(files.key).write_text(private)


def start_hub(folder: Path, files: TlsFiles) -> ThreadedHub:
    return ThreadedHub(folder / "state", hub__tls_cert=files.certificate, hub__tls_key=files.key)


def shown(hub: ThreadedHub) -> str:
    """The fingerprint of the certificate that a new connection gets."""
    port = int(hub.url.rpartition(":")[2])
    pem = ssl.get_server_certificate(("127.0.0.1", port), timeout=60)
    return fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))


def expected(folder: Path) -> str:
    return ensure_self_signed(folder, ["localhost"]).fingerprint


def test_a_renewed_certificate_is_presented_without_a_restart(
    tmp_path: Path, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_reload, "_CHECK_SECONDS", 0.05)
    with start_hub(tmp_path, files) as hub:
        assert shown(hub) == expected(tmp_path / "first")
        renew(files, tmp_path / "second")
        wait_until(lambda: shown(hub) == expected(tmp_path / "second"))
        assert hub.server.fingerprint is None


def test_no_handshake_fails_while_certificates_are_renewed(tmp_path: Path, files: TlsFiles) -> None:
    fingerprints = {expected(tmp_path / "first"), expected(tmp_path / "second")}
    with start_hub(tmp_path, files) as hub:
        ended = threading.Event()

        def renew_again_and_again() -> None:
            while not ended.is_set():
                for folder in ("second", "first"):
                    renew(files, tmp_path / folder)
                    hub.server.reload()

        with ThreadPoolExecutor() as pool:
            renewals = pool.submit(renew_again_and_again)
            try:
                seen = {shown(hub) for _ in range(200)}
            finally:
                ended.set()
            renewals.result()
    assert seen <= fingerprints


def test_half_a_renewal_leaves_the_old_certificate(tmp_path: Path, files: TlsFiles) -> None:
    live = LiveCertificate(files)
    renew(files, tmp_path / "second", key=False)
    assert not live.reload()
    Path(files.certificate).unlink()
    assert not live.reload()
    renew(files, tmp_path / "second")
    assert live.reload()


def test_what_follows_a_renewal_is_tried_again_until_it_succeeds(
    tmp_path: Path, files: TlsFiles
) -> None:
    outcomes = [StateError("the disk is full"), None]

    def follow() -> None:
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    live = LiveCertificate(files, follow)
    renew(files, tmp_path / "second")
    live.reload_if_changed()
    assert live.fingerprint == expected(tmp_path / "second")
    live.reload_if_changed()
    live.reload_if_changed()
    assert outcomes == []


def test_after_a_signal_it_is_read_at_once(tmp_path: Path, files: TlsFiles) -> None:
    with start_hub(tmp_path, files) as hub:
        renew(files, tmp_path / "second", key=False)
        hub.server.reload()
        assert shown(hub) == expected(tmp_path / "first")
        renew(files, tmp_path / "second")
        hub.server.reload()
        assert shown(hub) == expected(tmp_path / "second")


def test_a_certificate_that_may_not_be_read_says_who_has_to(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: TlsFiles) -> ssl.SSLContext:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(certificate_reload, "_load", refuse)
    name = pwd.getpwuid(os.geteuid()).pw_name
    with pytest.raises(UsageError, match=rf"let the user {name} read .*cert\.pem and .*key\.pem"):
        LiveCertificate(files)


def test_a_certificate_without_its_key_is_an_error_at_start(
    tmp_path: Path, files: TlsFiles
) -> None:
    renew(files, tmp_path / "second", key=False)
    with pytest.raises(
        UsageError, match=r"cert\.pem and .*key\.pem are no certificate and its key"
    ):
        LiveCertificate(files)
