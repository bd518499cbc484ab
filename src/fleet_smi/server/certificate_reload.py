"""The certificate that a running hub presents: read again when its files have changed."""

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import StateError, UsageError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.paths import user_name
from fleet_smi.server.tls import fingerprint_of

logger = logging.getLogger(__name__)
_CHECK_SECONDS = 10.0
_PEM_CERTIFICATE = r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----"


class TlsFiles(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class LiveCertificate:
    """A TLS context whose certificate can be replaced; open connections are not affected.

    Every handshake is handed over to the context of the latest certificate. Loading a renewed
    one into a context in use would fail the handshakes that fall between certificate and key.
    `on_renewal` is called after each; where it raises `StateError`, it is tried again.
    """

    def __init__(self, files: TlsFiles, on_renewal: Callable[[], None] = lambda: None) -> None:
        self._files = files
        self._on_renewal = on_renewal
        self._failures = FailureLog(logger, "certificate")
        self._stamp = self._read_stamp()
        try:
            self.context = self._latest = _load(files)
            self.fingerprint = _read_fingerprint(files)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"the certificate cannot be used: {_reason(error, files)}") from None
        # OpenSSL calls it in every handshake, whether the client names a server or not.
        self.context.sni_callback = self._use_latest

    def reload(self) -> bool:
        """Read the files again; where they are no pair, the old certificate stays. Blocking."""
        stamp = self._read_stamp()
        try:
            self._latest = _load(self._files)
            self.fingerprint = _read_fingerprint(self._files)
        except (OSError, ssl.SSLError) as error:
            reason = _reason(error, self._files)
            self._failures.record_failure(UsageError(f"not renewed, the old one stays: {reason}"))
            return False
        try:
            self._on_renewal()
        except StateError as error:
            self._failures.record_failure(error)
            return False
        self._stamp = stamp
        self._failures.record_success()
        logger.info("certificate=%s is loaded", self._files.certificate)
        return True

    def reload_if_changed(self) -> None:
        """Read the files again if one has changed. Blocking."""
        if self._read_stamp() != self._stamp:
            self.reload()

    async def watch(self) -> None:
        """Look for a renewed certificate until cancelled."""
        async for _ in ticks(_CHECK_SECONDS):
            await asyncio.to_thread(self.reload_if_changed)

    def _use_latest(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._latest

    def _read_stamp(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(file) for file in self._files]


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116  # follows the links that certbot replaces
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _load(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key, password=_no_password)
    return context


def _read_fingerprint(files: TlsFiles) -> str | None:
    """The fingerprint of the first certificate in the file, which is the one presented."""
    text = Path(files.certificate).read_text(encoding="ascii", errors="replace")
    found = re.search(_PEM_CERTIFICATE, text, re.DOTALL)
    return None if found is None else fingerprint_of(ssl.PEM_cert_to_DER_cert(found[0]))


def _no_password() -> str:
    # OpenSSL would ask for it on the terminal, and wait.
    raise ssl.SSLError("the key has a password: give one without")


def _reason(error: Exception, files: TlsFiles) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{files.certificate} and {files.key} are no certificate and its key ({error})"
    if isinstance(error, PermissionError):
        name = user_name(os.geteuid())
        return f"let the user {name} read {files.certificate} and {files.key}"
    return f"{files.certificate}, {files.key}: {getattr(error, 'strerror', None) or error}"
