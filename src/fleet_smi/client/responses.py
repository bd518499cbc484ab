"""Decode the responses of a hub: structs of the model, join tokens and errors."""

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.client.http1 import Response
from fleet_smi.errors import (
    FleetError,
    NoPerson,
    NotFound,
    Refused,
    Throttled,
    Undecodable,
    Unmet,
    Unreachable,
    UsageError,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.error_text import describe_error

_T = TypeVar("_T")
_MAX_RETRY_SECONDS = 10.0
_ERRORS_BY_CODE: dict[str, type[FleetError]] = {"no_person": NoPerson, "too_many": Unmet}
_MAX_MESSAGE_LENGTH = 1000  # the longest of a hub, with its remedies, has half of that


class ErrorResponse(Struct, frozen=True):
    """The error in a response: a code for programs and a message for people."""

    code: str
    message: str


class _ErrorDocument(Struct):
    error: ErrorResponse


class _JoinDocument(Struct):
    token: str


class _ProofDocument(Struct):
    proof: str


def decode_response(body: bytes, response_type: type[_T]) -> _T:
    """Decode a JSON response; raise `Undecodable` if it is not of that type."""
    try:
        return msgspec.json.decode(body, type=response_type)
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, or nested too deep
        raise Undecodable(
            f"cannot parse the hub's response ({describe_error(error)}): "
            "check that client and hub have the same version"
        ) from None


def decode_join_token(body: bytes) -> str:
    """The token of a node that has joined; raise `Undecodable` if there is none."""
    return decode_response(body, _JoinDocument).token


def decode_proof(body: bytes) -> str:
    """The proof of a hub's identity; raise `Undecodable` if there is none."""
    return decode_response(body, _ProofDocument).proof


def decode_error(body: bytes) -> ErrorResponse | None:
    """The error in a response, its message sanitised; `None` if the body is not a hub's error."""
    try:
        error = decode_response(body, _ErrorDocument).error
    except Undecodable:
        return None
    return replace(error, message=sanitize_text(error.message, _MAX_MESSAGE_LENGTH))


def response_error(response: Response, url: str) -> FleetError:
    """The error of an unsuccessful response, with the hub's own message."""
    error = decode_error(response.body)
    if error is None:
        message = f"answered with status {response.status}; is it a fleet-smi hub?"
    else:
        message = error.message
    if error is not None and error.code in _ERRORS_BY_CODE:
        return _ERRORS_BY_CODE[error.code](f"hub {url}: {message}")
    if response.status == 429:
        after = response.headers.get("retry-after", "")
        seconds = float(after) if after.isdecimal() and len(after) < 5 else 1.0
        return Throttled(f"hub {url}: {message}", min(seconds, _MAX_RETRY_SECONDS))
    # 421: the hub does not answer to this host name.
    if response.status in (401, 403, 421):
        return Refused(f"hub {url}: {message}")
    if response.status in (404, 405):
        return NotFound(f"hub {url}: {message}")
    if response.status in (400, 409, 422):
        return UsageError(f"hub {url}: {message}")
    return Unreachable(f"hub {url}: {message}")
