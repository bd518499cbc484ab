"""The receiver of an exporter: one HTTP request, and what its answer means."""

import base64
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from fleet_smi import __version__
from fleet_smi.model.safe_text import sanitize_text

_TIMEOUT_SECONDS = 30.0
_MAX_MESSAGE = 200
_MAX_RETRY_AFTER_SECONDS = 300.0
_HEADERS = {"User-Agent": f"fleet-smi/{__version__}", "Accept-Encoding": "identity"}
ReadHeaders = Callable[[], Mapping[str, str]]


def _none_rejected(_answer: bytes) -> tuple[int, str]:
    return 0, ""


class HttpProtocol(NamedTuple):
    """The specifics of one protocol over HTTP.

    `is_temporary` tells by its status whether a request that failed is to be sent again, and
    `rejected_samples` reads from the answer to a successful one how many samples were refused
    all the same, and why.
    """

    headers: Mapping[str, str]
    is_temporary: Callable[[int], bool]
    rejected_samples: Callable[[bytes], tuple[int, str]] = _none_rejected


class Unavailable(Exception):
    """The receiver cannot take the request now; it says when to retry, or `None`."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Rejected(Exception):
    """The receiver rejects this request, or some of its samples, for good."""

    def __init__(self, message: str, samples: int | None = None) -> None:
        super().__init__(message)
        self.samples = samples


class Receiver:
    """Sends requests to one URL; usable by several threads."""

    def __init__(self, url: str, protocol: HttpProtocol, read_credentials: ReadHeaders) -> None:
        """`read_credentials` returns the header of the credentials, read anew each time."""
        self._url = url
        self._protocol = protocol
        self._read_credentials = read_credentials
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"
        """The URL as shown to people: a query may have a token in it."""
        # No redirects, no proxies of the environment: the credentials go to this server only. The
        # system's own authorities, which an admin can add to.
        self._client = httpx.Client(
            headers={**_HEADERS, **protocol.headers},
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
                answer = next(response.iter_raw(), b"")
        except httpx.HTTPError as error:
            raise Unavailable(f"{self.name}: {str(error) or type(error).__name__}") from None
        self._check(response, answer)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _check(self, response: httpx.Response, answer: bytes) -> None:
        status = response.status_code
        if response.is_success:
            rejected, reason = self._protocol.rejected_samples(answer)
            if rejected:
                raise Rejected(f"{self.name} rejected{_detail(reason)}", rejected)
            return
        message = f"{self.name} answered {status}{_detail(answer.decode('utf-8', 'replace'))}"
        if self._protocol.is_temporary(status):
            raise Unavailable(message, _retry_after(response))
        raise Rejected(message)


def _detail(text: str) -> str:
    clean = sanitize_text(text, _MAX_MESSAGE)
    return f": {clean}" if clean else ""


def basic_credentials(user: str, password: str) -> str:
    """The value of the header `Authorization` for a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    # A date is left to our own back-off.
    return min(float(text), _MAX_RETRY_AFTER_SECONDS) if text.isdecimal() else None
