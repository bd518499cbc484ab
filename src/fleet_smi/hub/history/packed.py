"""Processes in a row of the database: their fields in order, without names.

A field that is new comes last, so that rows of before it are read with its default.
"""

from functools import lru_cache
from typing import Any

import msgspec

from fleet_smi.model.history import Holder

_FIELDS = Holder.__struct_fields__
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_MOST_KNOWN = 4096


def packed_holders(holders: tuple[Holder, ...]) -> bytes:
    """The holders as bytes."""
    return _encode([msgspec.structs.astuple(holder) for holder in holders])


@lru_cache(_MOST_KNOWN)  # the same few are on a GPU through many of its periods
def unpacked_holders(data: bytes) -> tuple[Holder, ...]:
    """The holders in these bytes."""
    rows = _decoder.decode(data)
    return tuple(Holder(**dict(zip(_FIELDS, values, strict=False))) for values in rows)
