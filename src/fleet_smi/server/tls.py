"""The self-signed TLS certificate of the hub, pinned by agents through its fingerprint.

It is created once and never renewed: agents trust the fingerprint, so a new certificate (because
the machine has a new address, say) would lock out every node. Key and certificate are in one
file, so that they are always a pair.
"""

import logging
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from fleet_smi.errors import StateError
from fleet_smi.hub.state_folder import write_private_file

logger = logging.getLogger(__name__)
CERTIFICATE_FILE = "tls.pem"
_DAYS = 3650
# Agents whose clock is slow must not reject a certificate as not yet valid.
_CLOCK_TOLERANCE = timedelta(days=1)


class SelfSignedCertificate(NamedTuple):
    """The file with key and certificate, and the fingerprint that agents pin."""

    path: Path
    fingerprint: str


def ensure_self_signed(folder: Path, names: Sequence[str]) -> SelfSignedCertificate:
    """The certificate of the hub, created for these names and addresses if there is none.

    Raise `StateError` if it cannot be read or written.
    """
    path = folder / CERTIFICATE_FILE
    if not path.exists():
        write_private_file(path, _create(names))
    certificate = _load(path)
    missing = sorted(set(names) - set(_names_in(certificate)))
    if missing:
        logger.warning(
            "the certificate in %s does not name %s; agents still trust it by its fingerprint. "
            "Remove the file to create a new one, and give every node its new fingerprint",
            path,
            ", ".join(missing),
        )
    return SelfSignedCertificate(path, fingerprint_of(certificate.public_bytes(Encoding.DER)))


def hub_certificate(folder: Path, hosts: Iterable[str]) -> SelfSignedCertificate:
    """The certificate of the hub on this machine, which also answers to these `hosts`."""
    names = {"localhost", "127.0.0.1", socket.gethostname(), *hosts}
    return ensure_self_signed(folder, sorted(names))


def read_fingerprint(folder: Path) -> str | None:
    """The fingerprint of the certificate in a state folder, `None` if there is none.

    Raise `StateError` if it cannot be read.
    """
    path = folder / CERTIFICATE_FILE
    if not path.exists():
        return None
    return fingerprint_of(_load(path).public_bytes(Encoding.DER))


def fingerprint_of(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER encoding, as "sha256:…"."""
    return f"sha256:{sha256(certificate).hexdigest()}"


def _create(names: Iterable[str]) -> bytes:
    key = generate_private_key(SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet-smi hub")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_TOLERANCE)
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        # Not an authority: a client that trusts this certificate trusts this hub only.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)


def _load(path: Path) -> x509.Certificate:
    try:
        content = path.read_bytes()
        key = load_pem_private_key(content, None)
        certificate = x509.load_pem_x509_certificate(content)
    except (OSError, ValueError, TypeError):
        raise StateError(
            f"{path} holds no key and certificate: remove it to create a new one; "
            "every node then needs the new fingerprint"
        ) from None
    if key.public_key() != certificate.public_key():
        raise StateError(f"{path}: key and certificate do not match: restore a good copy")
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise StateError(
            f"{path} has expired: remove it to create a new one; "
            "every node then needs the new fingerprint"
        )
    return certificate


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_in(certificate: x509.Certificate) -> list[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]
