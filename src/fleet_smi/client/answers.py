"""What a hub says in its answers: what was asked for, or why not, in its own words."""

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Undecodable
from fleet_smi.model.text import clean
from fleet_smi.wire.plain_words import plain_words

_T = TypeVar("_T")
_MOST_WORDS = 300


class Refusal(Struct, frozen=True):
    """Why a hub did not do what it was asked: by name, and in words."""

    code: str
    message: str


class _Refused(Struct):
    error: Refusal


class _Joined(Struct):
    token: str


def read(body: bytes, shape: type[_T]) -> _T:
    """The noun in these bytes; raise `Undecodable` when it is not there."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, or nested too deep
        raise Undecodable(
            f"the hub's answer is not understood ({plain_words(error)}): are both of one version?"
        ) from None


def token_in(body: bytes) -> str:
    """The token of a node that has joined; raise `Undecodable` when it is not there."""
    return read(body, _Joined).token


def refusal_in(body: bytes) -> Refusal | None:
    """The refusal in these bytes, its words made harmless; `None` when no hub wrote them."""
    try:
        refusal = read(body, _Refused).error
    except Undecodable:
        return None
    return replace(refusal, message=clean(refusal.message, _MOST_WORDS))
