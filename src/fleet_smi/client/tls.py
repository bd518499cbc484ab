"""TLS to a hub: by the system's authorities, or by the one certificate that is pinned."""

import hashlib
import hmac
import socket
import ssl

from fleet_smi.errors import Refused


def wrap_tls(
    sock: socket.socket, host: str, hub_url: str, fingerprint: str | None
) -> ssl.SSLSocket:
    """The same connection, its other end known; raise `Refused` when it is not who is pinned."""
    context = ssl.create_default_context()
    if fingerprint is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        wrapped = context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    if fingerprint is not None and not _shows(wrapped, fingerprint):
        wrapped.close()
        raise Refused(
            f"hub {hub_url} shows another certificate than the pinned one: ask its admin for "
            "`fleet-smi hub join-command`, or somebody is in between"
        )
    return wrapped


def _shows(wrapped: ssl.SSLSocket, fingerprint: str) -> bool:
    certificate = wrapped.getpeercert(binary_form=True)
    shown = f"sha256:{hashlib.sha256(certificate or b'').hexdigest()}"
    return hmac.compare_digest(shown, fingerprint.strip().lower())
