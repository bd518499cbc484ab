"""HTTP errors as values, all with one JSON shape: a code for programs, a message for people."""

import msgspec
from msgspec import Struct

Headers = list[tuple[bytes, bytes]]


class ErrorDetail(Struct, frozen=True):
    """`code` is for programs, `message` for people."""

    code: str
    message: str


class ErrorBody(Struct, frozen=True):
    """The JSON body of every error."""

    error: ErrorDetail


class HttpError(Struct, frozen=True):
    """An error response: its status, a code for programs and a message for people."""

    status: int
    code: str
    message: str
    retry_after_seconds: int | None = None
    allow: str | None = None

    @property
    def body(self) -> bytes:
        """The JSON body: `{"error": {"code": …, "message": …}}`."""
        return msgspec.json.encode(ErrorBody(ErrorDetail(self.code, self.message)))

    @property
    def headers(self) -> Headers:
        """The headers that belong to the body and the status."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self.body)).encode()),
        ]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.retry_after_seconds is not None:
            headers.append((b"retry-after", str(self.retry_after_seconds).encode()))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        return headers


INTERNAL_ERROR = HttpError(500, "bug", "internal error: see the log of the hub")
