"""The receiver of remote write: one HTTP request, and what its answer means."""

import base64
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from fleet_smi import __version__
from fleet_smi.model.safe_text import sanitize_text

_TIMEOUT_SECONDS = 30.0
_MAX_MESSAGE = 200
_MAX_RETRY_AFTER_SECONDS = 300.0
# The answers to "later", beside those of a server that fails: 429 is too many requests.
_RETRIED = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
_SERVER_ERRORS = 500
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "User-Agent": f"fleet-smi/{__version__}",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "Accept-Encoding": "identity",
}
ReadHeaders = Callable[[], Mapping[str, str]]


class Unavailable(Exception):
    """The receiver cannot take the request now; it says when to retry, or `None`."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Rejected(Exception):
    """The receiver will never take this request."""


class Receiver:
    """Sends requests to one URL; usable by several threads."""

    def __init__(self, url: str, read_credentials: ReadHeaders) -> None:
        """`read_credentials` returns the header of the credentials, read anew each time."""
        self._url = url
        self._read_credentials = read_credentials
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"
        """The URL as shown to people: a query may have a token in it."""
        # No redirects, no proxies of the environment: the credentials go to this server only. The
        # system's own authorities, which an admin can add to.
        self._client = httpx.Client(
            headers=_HEADERS,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=False,
            trust_env=False,
            verify=ssl.create_default_context(),
        )

    def send(self, body: bytes) -> None:
        """Send one compressed message; raise `Unavailable` or `Rejected`."""
        headers = dict(self._read_credentials())
        try:
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                # One read, which is bounded: an answer may go on for ever.
                text = next(response.iter_raw(), b"")
        except httpx.HTTPError as error:
            raise Unavailable(f"{self.name}: {str(error) or type(error).__name__}") from None
        self._check(response, text)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _check(self, response: httpx.Response, text: bytes) -> None:
        status = response.status_code
        if response.is_success:
            return
        detail = sanitize_text(text.decode("utf-8", "replace"), _MAX_MESSAGE)
        message = f"{self.name} answered {status}{f': {detail}' if detail else ''}"
        if status >= _SERVER_ERRORS or status in _RETRIED:
            raise Unavailable(message, _retry_after(response))
        raise Rejected(message)


def basic_credentials(user: str, password: str) -> str:
    """The value of the header `Authorization` for a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    # A date is left to our own back-off.
    return min(float(text), _MAX_RETRY_AFTER_SECONDS) if text.isdecimal() else None
