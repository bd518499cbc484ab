"""What a hub says in its answers: what was asked for, or why not, in its own words."""

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.error_text import describe_error

_T = TypeVar("_T")
_MOST_WORDS = 300


class ErrorResponse(Struct, frozen=True):
    """Why a hub did not do what it was asked: by name, and in words."""

    code: str
    message: str


class _Refused(Struct):
    error: ErrorResponse


class _Joined(Struct):
    token: str


def decode_response(body: bytes, response_type: type[_T]) -> _T:
    """The noun in these bytes; raise `Undecodable` when it is not there."""
    try:
        return msgspec.json.decode(body, type=response_type)
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, or nested too deep
        raise Undecodable(
            f"cannot parse the hub's response ({describe_error(error)}): "
            "check that client and hub have the same version"
        ) from None


def decode_join_token(body: bytes) -> str:
    """The token of a node that has joined; raise `Undecodable` when it is not there."""
    return decode_response(body, _Joined).token


def decode_error(body: bytes) -> ErrorResponse | None:
    """The refusal in these bytes, its words made harmless; `None` when no hub wrote them."""
    try:
        refusal = decode_response(body, _Refused).error
    except Undecodable:
        return None
    return replace(refusal, message=sanitize_text(refusal.message, _MOST_WORDS))
