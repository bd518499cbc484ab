"""Requests of one hub to another, about nodes that the other owns."""

import zlib
from typing import Any

import msgspec
from msgspec import Struct

from fleet_smi.errors import Unreachable
from fleet_smi.hub.history.series.layout import RowLayout, decode_layout, encode_layout

# NATS carries at most 1 MB. Smaller ones are plain: every version can read them.
_COMPRESS_FROM_BYTES = 512 << 10
_MAX_BYTES = 64 << 20
# The first byte of a zlib stream. In msgpack it is a small integer, which no response is.
_ZLIB = b"\x78"


class GetNode(Struct, frozen=True, tag=True):
    """Return a node with all its data."""

    node_id: str


class LabelNode(Struct, frozen=True, tag=True):
    """Set the name and labels of a node; return whether there is one."""

    node_id: str
    name: str | None
    labels: dict[str, str] | None


class RemoveNode(Struct, frozen=True, tag=True):
    """Remove a node; return whether there was one."""

    node_id: str


class GetOpenIntervals(Struct, frozen=True, tag=True):
    """Return the open intervals of nodes, or of all of the hub's."""

    node_ids: tuple[str, ...] | None


class GetSeriesRows(Struct, frozen=True, tag=True):
    """Return the unfinished rows of nodes, or those rows of them that hold at a time."""

    node_ids: tuple[str, ...]
    at: float | None


class WriteUsage(Struct, frozen=True, tag=True):
    """Write the sums of the current hour of all nodes; return whether they are written."""


Request = GetNode | LabelNode | RemoveNode | GetOpenIntervals | GetSeriesRows | WriteUsage
_decoder = msgspec.msgpack.Decoder(Request)


def encode(value: Any) -> bytes:
    """Encode a request or its response, compressed where it is large."""
    data = msgspec.msgpack.encode(value, enc_hook=_encode_layout)
    return data if len(data) < _COMPRESS_FROM_BYTES else zlib.compress(data, 1)


def decode_request(data: bytes) -> Request | None:
    """Decode a request; `None` for one that this version does not know."""
    try:
        request: Request = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return request


def decode_response(data: bytes, kind: Any) -> Any:
    """Decode a response; raise `Unreachable` if it is of another version."""
    try:
        if data[:1] == _ZLIB:
            # Bounded: a small message must not decompress to all of the memory.
            data = zlib.decompressobj().decompress(data, _MAX_BYTES)
        return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_layout)
    except (msgspec.MsgspecError, ValueError, zlib.error, RecursionError) as error:
        raise Unreachable(f"the hub of this node answers in another version: {error}") from None


def _encode_layout(value: Any) -> str:
    """Encode the layout of a series row, the only type that msgspec does not know."""
    if isinstance(value, RowLayout):
        return encode_layout(value)
    raise TypeError(f"no encoding of {type(value).__name__}")


def _decode_layout(_: type, text: Any) -> RowLayout:
    try:
        return decode_layout(text)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a layout: {error!r}") from None
