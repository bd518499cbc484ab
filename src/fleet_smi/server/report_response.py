"""Responses to reports: the receipt, and every error."""

from typing import NamedTuple

from msgspec.structs import replace
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.wire.report import MAX_REPORT_BYTES, Receipt, encode_receipt

JSON_TYPE = b"application/json"
_KEPT, _NOTHING = b'"kept":null', b"null"
TOO_LARGE = HttpError(413, "too_large", f"the report exceeds {MAX_REPORT_BYTES >> 20} MiB")
WRONG_METHOD = HttpError(405, "wrong_method", "reports are sent by POST", allow="POST")
UNSUPPORTED_MEDIA_TYPE = HttpError(
    415, "wrong_kind", "send application/msgpack or application/json, uncompressed"
)
DISCONNECTED = HttpError(400, "cut_short", "the connection ended before the report did")
# Not 500, after which an agent retries: the same report would run into the same bug again.
BUG = HttpError(422, "bug", "this report triggers a bug in fleet-smi: see the log of the hub")
BEHIND = HttpError(
    429, "history_behind", "the history is written more slowly than old reports arrive: retry", 2
)
OUT_OF_ORDER = HttpError(
    409, "out_of_order", "the hub lacks earlier reports: send all that is not durable again"
)
NEED_FULL = HttpError(409, "need_full", "the hub lacks the base of this report: send it in full")
NO_MEMORY = HttpError(
    503, "busy", "too many reports are being sent to this hub at the same time: retry", 1
)
STARTING = HttpError(503, "not_ready", "the hub is starting or stopping: retry", 1)


class ReportResponse(NamedTuple):
    """An encoded receipt, with the same attributes as an `HttpError`."""

    body: bytes
    status: int = 200

    @property
    def headers(self) -> Headers:
        """The headers that belong to the body."""
        return receipt_headers(b"%d" % len(self.body))


def encode_head(status: int, headers: Headers) -> bytes:
    """Encode the head of a response."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"%b%b\r\n" % (STATUS_LINE[status], b"".join(lines))


def encode_receipt_response(body: bytes) -> bytes:
    """Encode the response that a receipt is."""
    return _RECEIPT % (len(body), body)


class ReceiptTemplate:
    """All receipts that differ only in what is durable, encoded as responses."""

    def __init__(self, receipt: Receipt) -> None:
        before, field, after = encode_receipt(replace(receipt, kept=None)).partition(_KEPT)
        before += field.removesuffix(_NOTHING)
        self._length = len(before) + len(after)
        self._form = _RECEIPT.replace(b"%b", b"%b%%b%b" % (_literal(before), _literal(after)))

    def response(self, kept: int | None) -> bytes:
        """The response with the number up to which reports are durable."""
        number = _NOTHING if kept is None else b"%d" % kept
        return self._form % (self._length + len(number), number)


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


def receipt_headers(content_length: bytes) -> Headers:
    """The headers of a receipt."""
    return [
        (b"content-type", JSON_TYPE),
        (b"content-length", content_length),
        # The other security headers concern pages; this response is never shown as one.
        (b"x-content-type-options", b"nosniff"),
    ]


# Encoded once: all receipts have the same head, but for the length.
_RECEIPT = encode_head(200, receipt_headers(b"%d")) + b"%b"
