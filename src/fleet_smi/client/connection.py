"""A keep-alive HTTP connection to a hub: retry when stale, TLS pinning, errors with remedies."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from fleet_smi.client.http1 import Http1Connection, ProtocolError, Response
from fleet_smi.errors import Refused, Undecodable, Unreachable, UsageError

__all__ = ["DEFAULT_PORT", "HubConnection", "Response", "parse_hub_url"]

DEFAULT_PORT = 7070
_MAX_BYTES = 1 << 28


class HubConnection:
    """Sends requests to one hub over one connection, which is reopened if the hub closed it.

    With a `fingerprint` ("sha256:…") the hub must present exactly that certificate, instead of
    one of a trusted authority. The token is sent only after that. Redirects are not followed.
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
        self._scheme, self.host, self._port, self._base = parse_hub_url(url)
        self._open: Http1Connection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        max_bytes: int = _MAX_BYTES,
    ) -> Response:
        """Send a request; raise `Unreachable`, `Refused` (its certificate) or `Undecodable`.

        A response has at most `max_bytes`, compressed or not.
        """
        all_headers = {"Accept-Encoding": "gzip", **(headers or {})}
        if self.token:
            all_headers["Authorization"] = f"Bearer {self.token}"
        was_open = self._open is not None
        try:
            return self._send(method, path, body, all_headers, max_bytes)
        except (ConnectionError, ProtocolError) as error:
            # Closed by another thread of this process, which wants the request to end.
            was_cancelled = self._open is None
            self.close()
            if was_cancelled or not was_open:
                raise self._translate(error) from None
        except OSError as error:  # not retried: a timeout would double
            self.close()
            raise self._translate(error) from None
        # Retry once on a new connection: the hub may have closed an idle one meanwhile.
        try:
            return self._send(method, path, body, all_headers, max_bytes)
        except (OSError, ProtocolError) as error:
            self.close()
            raise self._translate(error) from None

    def limit_wait(self, seconds: float) -> None:
        """Set the timeout of requests."""
        self._timeout_seconds = min(self._timeout_seconds, seconds)

    def stream(self, path: str, max_bytes: int) -> Iterator[bytes]:
        """Yield the body of a GET that does not end; raise as `request`, and for a bad status.

        Neither a part of it nor what one part decompresses to has more than `max_bytes`.
        """
        headers = {"Accept-Encoding": "gzip", "Accept": "text/event-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        self.close()
        try:
            opened = self._open = self._connect()
            status, received = opened.open_stream(self._base + path, headers)
            if status != 200:
                kind = Refused if status in (401, 403) else Unreachable
                raise kind(f"hub {self.url} answered with status {status}")
            chunks = opened.iterate_chunks(max_bytes)
            if received.get("content-encoding") == "gzip":
                chunks = _decompress_chunks(chunks, max_bytes)
            yield from chunks
        except (OSError, ProtocolError) as error:
            raise self._translate(error) from None
        finally:
            self.close()

    def copy(self, token: str, timeout_seconds: float) -> "HubConnection":
        """Another connection to the same hub, not open yet, with a token of its own."""
        return HubConnection(
            self.url,
            token=token,
            fingerprint=self._fingerprint,
            timeout_seconds=timeout_seconds,
        )

    def close(self) -> None:
        """Close the connection; a thread that waits for a response gets an error."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], max_bytes: int
    ) -> Response:
        opened = self._open
        if opened is None:
            opened = self._open = self._connect()
        response = opened.request(method, self._base + path, body, headers, max_bytes)
        if opened.must_close:
            self.close()
        if response.headers.get("content-encoding") != "gzip":
            return response
        return response._replace(body=_decompress(response.body, max_bytes))

    def _connect(self) -> Http1Connection:
        sock = _socket(self.host, self._port, self._timeout_seconds)
        if self._scheme == "https":
            # Imported here: an agent that uses plain HTTP never loads OpenSSL.
            from fleet_smi.client.tls import wrap_tls

            sock = wrap_tls(sock, self.host, self.url, self._fingerprint)
        name = f"[{self.host}]" if ":" in self.host else self.host
        return Http1Connection(sock, f"{name}:{self._port}", self._timeout_seconds)

    def _translate(self, error: Exception) -> Unreachable | Refused | Undecodable:
        # A port that the URL does not name is the hub's, and not that of a proxy.
        is_named = f":{self._port}" in self.url
        where = f"hub {self.url}" if is_named else f"hub {self.url}, port {self._port}"
        if isinstance(error, socket.gaierror):
            return Unreachable(f"{where}: the host name cannot be resolved")
        if isinstance(error, TimeoutError):
            return Unreachable(f"{where} did not answer in {self._timeout_seconds:g} s")
        if isinstance(error, ConnectionRefusedError):
            return Unreachable(f"{where}: connection refused; is `fleet-smi hub` running?")
        if isinstance(error, ProtocolError):
            return Undecodable(
                f"{where} does not answer as a hub does ({error}): check the port and http/https"
            )
        # By name: importing `ssl` to check a type would load OpenSSL.
        if type(error).__module__ == "ssl":
            return self._translate_tls(where, error)
        if isinstance(error, ConnectionResetError) and self._scheme == "http":
            return Unreachable(f"{where} closed the connection without a response: use https?")
        return Unreachable(f"{where}: {getattr(error, 'strerror', None) or error}")

    def _translate_tls(self, where: str, error: Exception) -> Refused | Undecodable:
        if type(error).__name__ == "SSLCertVerificationError":
            if "mismatch" in str(error):
                return Refused(
                    f"{where}: its certificate is not for the name {self.host}: use the name that "
                    "is in it, or pin it with its fingerprint"
                )
            return Refused(
                f"{where}: its certificate is not trusted: pin it with the fingerprint of its join "
                "line (an agent's --fingerprint, or client.fingerprint in fleet-smi.toml)"
            )
        return Undecodable(f"{where} does not speak TLS there: is it http instead of https?")


def parse_hub_url(url: str) -> tuple[str, str, int, str]:
    """The scheme, host, port and base path of a URL; raise `UsageError` if it is invalid."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme, host, port = parts.scheme, parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        scheme, host, port = "", None, 0
    if scheme not in ("http", "https") or not host or parts.username or parts.query:
        raise UsageError(f"{url!r} is not the URL of a hub: give one like http://gpuhub:7070")
    return scheme, host, port, parts.path.rstrip("/")


def _socket(host: str, port: int, timeout_seconds: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout_seconds)
    except UnicodeError:  # it cannot be encoded as a host name
        raise socket.gaierror from None


def _decompress_chunks(chunks: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    import zlib

    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for chunk in chunks:
        try:
            part = decompressor.decompress(chunk, max_bytes)
        except zlib.error:
            raise ProtocolError("invalid gzip data") from None
        if decompressor.unconsumed_tail:
            raise ProtocolError("a part of the response is too large")
        yield part


def _decompress(data: bytes, max_bytes: int) -> bytes:
    import zlib

    # Bounded: a small response must not decompress to all of the memory.
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        body = decompressor.decompress(data, max_bytes)
    except zlib.error:
        raise ProtocolError("invalid gzip data") from None
    if not decompressor.eof:
        raise ProtocolError("the response is too large or truncated")
    return body
