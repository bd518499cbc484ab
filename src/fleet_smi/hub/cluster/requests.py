"""Requests of one hub to another, about a node that the other owns."""

from typing import Any

import msgspec
from msgspec import Struct

from fleet_smi.errors import Unreachable


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


Request = GetNode | LabelNode | RemoveNode | GetOpenIntervals
_decoder = msgspec.msgpack.Decoder(Request)


def encode(value: Any) -> bytes:
    """Encode a request or its response."""
    return msgspec.msgpack.encode(value)


def decode_request(data: bytes) -> Request | None:
    """Decode a request; `None` for one that this version does not know."""
    try:
        request: Request = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
    return request


def decode_response(data: bytes, kind: Any) -> Any:
    """Decode a response; raise `Unreachable` if it is of another version."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreachable(f"the hub of this node answers in another version: {error}") from None
