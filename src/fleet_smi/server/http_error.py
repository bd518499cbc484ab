"""A refusal: why a request is not answered, in the one shape that all errors have."""

import msgspec
from msgspec import Struct

Headers = list[tuple[bytes, bytes]]


class ErrorDetail(Struct, frozen=True):
    """`code` is for programs, `message` for people."""

    code: str
    message: str


class ErrorBody(Struct, frozen=True):
    """The one shape of an error."""

    error: ErrorDetail


class HttpError(Struct, frozen=True):
    """Refusals are values: a status, a code for programs and a sentence for people."""

    status: int
    code: str
    message: str
    retry_after_seconds: int | None = None
    allow: str | None = None

    @property
    def body(self) -> bytes:
        """`{"error": {"code": …, "message": …}}`"""
        return msgspec.json.encode(ErrorBody(ErrorDetail(self.code, self.message)))

    @property
    def headers(self) -> Headers:
        """What goes with the body, its length included."""
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


INTERNAL_ERROR = HttpError(500, "bug", "this is a bug in fleet-smi; the hub's log says more")
