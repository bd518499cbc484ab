"""TLS connections to a hub, verified by the system's authorities or by a pinned fingerprint."""

import hashlib
import hmac
import socket
import ssl

from fleet_smi.errors import Refused


def wrap_tls(
    sock: socket.socket, host: str, hub_url: str, fingerprint: str | None
) -> ssl.SSLSocket:
    """Start TLS on a socket; raise `Refused` if the certificate is not the pinned one."""
    context = ssl.create_default_context()
    if fingerprint is not None:
        # The pin replaces both checks: a self-signed certificate has no authority, and it stays
        # the same when the hub gets another name.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        wrapped = context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    if fingerprint is not None and not _matches(wrapped, fingerprint):
        wrapped.close()
        raise Refused(
            f"hub {hub_url} presents another certificate than the pinned one: ask its admin for "
            "`fleet-smi hub join-command`, or the connection is intercepted"
        )
    return wrapped


def _matches(wrapped: ssl.SSLSocket, fingerprint: str) -> bool:
    certificate = wrapped.getpeercert(binary_form=True)
    presented = f"sha256:{hashlib.sha256(certificate or b'').hexdigest()}"
    return hmac.compare_digest(presented, fingerprint.strip().lower())
