"""One kept connection to a hub: light, with pinned certificates, and errors that say what to do."""

import socket
from urllib.parse import urlsplit

from fleet_smi.client.http1 import Http1Connection, ProtocolError, Response
from fleet_smi.errors import Refused, Undecodable, Unreachable, UsageError

__all__ = ["DEFAULT_PORT", "HubConnection", "Response", "parse_hub_url"]

DEFAULT_PORT = 7070
_MOST_BYTES = 1 << 28


class HubConnection:
    """Asks one hub, over one connection that is kept and opened anew when it was closed.

    With a `fingerprint` ("sha256:…") the hub must show that very certificate, and no
    authority is asked. The token is sent only once that is settled. Redirects are not followed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        fingerprint: str | None = None,
        timeout_seconds: float = 10.0,
    ) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._fingerprint = fingerprint
        self._timeout_seconds = timeout_seconds
        self._scheme, self._host, self._port, self._base = parse_hub_url(url)
        self._open: Http1Connection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        max_bytes: int = _MOST_BYTES,
    ) -> Response:
        """Ask once; raise `Unreachable`, `Refused` (its certificate) or `Undecodable`.

        An answer has at most `most_bytes`, packed or not.
        """
        told = {"Accept-Encoding": "gzip", **(headers or {})}
        if self.token:
            told["Authorization"] = f"Bearer {self.token}"
        kept = self._open is not None
        try:
            return self._ask(method, path, body, told, max_bytes)
        except (ConnectionError, ProtocolError) as error:
            hung_up = self._open is None  # by another thread of ours, which wants this to end
            self.close()
            if hung_up or not kept:
                raise self._translated(error) from None
        except OSError as error:
            self.close()
            raise self._translated(error) from None
        # The hub may close a connection that was quiet for long: that says nothing about it.
        try:
            return self._ask(method, path, body, told, max_bytes)
        except (OSError, ProtocolError) as error:
            self.close()
            raise self._translated(error) from None

    def close(self) -> None:
        """Let go of the connection; whoever waits for an answer on it stops waiting."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most_bytes: int
    ) -> Response:
        opened = self._open
        if opened is None:
            opened = self._open = self._connected()
        answer = opened.request(method, self._base + path, body, headers, most_bytes)
        if opened.must_close:
            self.close()
        if answer.headers.get("content-encoding") != "gzip":
            return answer
        return answer._replace(body=_unpacked(answer.body, most_bytes))

    def _connected(self) -> Http1Connection:
        sock = _socket(self._host, self._port, self._timeout_seconds)
        if self._scheme == "https":
            from fleet_smi.client.tls import wrap_tls

            sock = wrap_tls(sock, self._host, self.url, self._fingerprint)
        name = f"[{self._host}]" if ":" in self._host else self._host
        return Http1Connection(sock, f"{name}:{self._port}", self._timeout_seconds)

    def _translated(self, error: Exception) -> Unreachable | Refused | Undecodable:
        where = f"hub {self.url}"
        if isinstance(error, socket.gaierror):
            return Unreachable(f"{where}: no machine of that name is known")
        if isinstance(error, TimeoutError):
            return Unreachable(f"{where} did not answer in {self._timeout_seconds:g} s")
        if isinstance(error, ConnectionRefusedError):
            return Unreachable(f"{where}: nobody listens there; is `fleet-smi hub` running?")
        if isinstance(error, ProtocolError):
            return Undecodable(
                f"{where} does not answer as a hub does ({error}): check the port and http/https"
            )
        if type(error).__module__ == "ssl":
            return self._mistrusted(where, error)
        if isinstance(error, ConnectionResetError) and self._scheme == "http":
            return Unreachable(f"{where} hung up without an answer: does it want https?")
        return Unreachable(f"{where}: {getattr(error, 'strerror', None) or error}")

    def _mistrusted(self, where: str, error: Exception) -> Refused | Undecodable:
        if type(error).__name__ == "SSLCertVerificationError":
            return Refused(
                f"{where}: its certificate is not trusted: pin it with the fingerprint of its join "
                "line (an agent's --fingerprint, or client.fingerprint in fleet-smi.toml)"
            )
        return Undecodable(f"{where} does not speak TLS there: is it http instead of https?")


def parse_hub_url(url: str) -> tuple[str, str, int, str]:
    """The scheme, host, port and base path of a hub; raise `UsageError` when it is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme, host, port = parts.scheme, parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        scheme, host, port = "", None, 0
    if scheme not in ("http", "https") or not host or parts.username or parts.query:
        raise UsageError(f"{url!r} is no address of a hub: give one like http://gpuhub:7070")
    return scheme, host, port, parts.path.rstrip("/")


def _socket(host: str, port: int, timeout_seconds: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout_seconds)
    except UnicodeError:  # it can be no name at all
        raise socket.gaierror from None


def _unpacked(data: bytes, most_bytes: int) -> bytes:
    import zlib

    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        unpacked = unpacker.decompress(data, most_bytes)
    except zlib.error:
        raise ProtocolError("broken compression") from None
    if not unpacker.eof:
        raise ProtocolError("an answer without an end")
    return unpacked
