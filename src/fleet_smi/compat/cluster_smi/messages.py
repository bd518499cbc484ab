"""Typed and lenient decoding of cluster-smi's MessagePack, keyed by Go's field names. Pure.

Only fields that are used are declared. A message within the limits is decoded in one pass. If
one is not, each of its fields is decoded by itself, and those that fail are unknown.
"""

from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from fleet_smi.errors import Undecodable
from fleet_smi.model.range_check import RANGES
from fleet_smi.wire.limits import MAX_ITEMS, MAX_TEXT_LENGTH, max_length

DECODE_ERRORS = (ValueError, RecursionError)
_T = TypeVar("_T", bound=Struct)
_RAW_LIST = Annotated[list[Raw], Meta(max_length=20_000)]
_NIL = b"\xc0"
# MessagePack: first byte of str8/16/32 and bin8/16/32, and the offset of the content.
_HEADER_LENGTHS = {0xD9: 2, 0xDA: 3, 0xDB: 5, 0xC4: 2, 0xC5: 3, 0xC6: 5}
_FIXSTR = range(0xA0, 0xC0)


def _within(field: str) -> Meta:
    low, high = RANGES[field]
    return Meta(ge=int(low), le=int(high))


_Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
_Bytes = Annotated[int, _within("memory_total_bytes")]
_Percent = Annotated[int, _within("busy_percent")]
_Seconds = Annotated[int, Meta(ge=0, le=2**33)]


class MemoryMessage(Struct, rename="pascal", gc=False):
    """Memory in bytes; its `Percentage` is always 0 and not read."""

    used: _Bytes | None = None
    total: _Bytes | None = None


class ProcessMessage(Struct, rename="pascal", gc=False):
    """A compute process; `extended_command` is its command line, separated by NULs."""

    pid: Annotated[int, _within("pid")] | None = None
    used_gpu_memory: _Bytes | None = None
    name: _Text = ""
    username: _Text = ""
    run_time: _Seconds | None = None
    extended_command: Annotated[str, Meta(max_length=max_length("command"))] = ""


class DeviceMessage(Struct, rename="pascal", gc=False):
    """A GPU; a node of 2018 sends the first four fields only."""

    id: Annotated[int, _within("index")] | None = None
    name: _Text = ""
    utilization: _Percent | None = None
    memory_utilization: MemoryMessage | None = None
    fan_speed: Annotated[int, _within("fan_percent")] | None = None
    temperature: Annotated[int, _within("temperature_celsius")] | None = None
    power_usage: Annotated[int, _within("power_watts")] | None = None
    # UNSET is a node that cannot list processes; nil is Go's empty list.
    processes: (
        Annotated[list[ProcessMessage], Meta(max_length=MAX_ITEMS["processes"])] | UnsetType | None
    ) = UNSET


class NodeMessage(Struct, rename="pascal", gc=False):
    """A node; the version of 2018 sends no times, and only a fork the last two fields."""

    name: _Text = ""
    devices: Annotated[list[DeviceMessage], Meta(max_length=MAX_ITEMS["gpus"])] | None = None
    # MessagePack's timestamp, or seconds and nanoseconds as two integers.
    time: datetime | Annotated[list[int], Meta(max_length=2)] | None = None
    boot_time: _Seconds | None = None
    comment: _Text = ""
    cpu_util: Annotated[float, Meta(ge=0.0, le=1.0)] | None = msgspec.field(
        default=None, name="CPUUtil"
    )

    @property
    def timestamp(self) -> float | None:
        """When it was read, by the node's own clock; Go's zero time, year 1, is `None`."""
        time = self.time
        if not time:
            return None
        seconds = time.timestamp() if isinstance(time, datetime) else float(time[0])
        return seconds if 0.0 < seconds < 2**33 else None


class _ClusterMessage(Struct, rename="pascal"):
    nodes: _RAW_LIST | None  # raw, so that one bad node does not fail the whole message


_ITEM_TYPES: dict[str, type[Struct]] = {"devices": DeviceMessage, "processes": ProcessMessage}
_MAX_ITEMS_OF = {"devices": MAX_ITEMS["gpus"], "processes": MAX_ITEMS["processes"]}


def decode_node_message(body: bytes | Raw, lenient: "LenientMessageDecoder") -> NodeMessage:
    """Decode one node; raise one of `DECODE_ERRORS`, or `Undecodable` beyond the repair limit."""
    try:
        return _node_decoder.decode(body)
    except DECODE_ERRORS:
        return lenient.decode(body, NodeMessage)


def decode_cluster_message(body: bytes) -> list[Raw]:
    """Split the message of a router into its nodes; raise one of `DECODE_ERRORS`."""
    return _decoder(_ClusterMessage).decode(body).nodes or []


class LenientMessageDecoder:
    """Decodes messages that break the limits, field by field, up to a number of repairs."""

    def __init__(self, max_repairs: int) -> None:
        self._left = max_repairs

    def decode(self, raw: bytes | Raw, struct_type: type[_T]) -> _T:
        """Decode the fields that can be decoded; raise `Undecodable` after too many repairs."""
        # Each repair decodes a struct twice: without a limit, a message made of bad items is slow.
        self._left -= 1
        if self._left < 0:
            raise Undecodable("has too many fields that cannot be decoded")
        loose, values = _decoder(_loose(struct_type)).decode(raw), {}
        for field in fields(struct_type):
            raw_field: Raw = getattr(loose, field.name)
            if raw_field:
                with suppress(*DECODE_ERRORS):
                    values[field.name] = self._field(raw_field, field)
        return struct_type(**values)

    def _field(self, raw: Raw, field: FieldInfo) -> Any:
        if field.name in _ITEM_TYPES:
            return self._items(raw, field.name)
        try:
            return _decoder(field.type).decode(raw)
        except DECODE_ERRORS:
            if field.default == "":  # a text field
                # One more character than the limit, so that the cut is visible later.
                limit = max_length("command" if field.name == "extended_command" else field.name)
                return _text(bytes(raw))[: limit + 1]
            if field.name == "memory_utilization":
                return self.decode(raw, MemoryMessage)
            raise

    def _items(self, raw: Raw, name: str) -> list[Any] | None:
        if raw == _NIL:
            return None
        raw_items, items = _decoder(_RAW_LIST).decode(raw), []
        for raw_item in raw_items[: _MAX_ITEMS_OF[name]]:
            with suppress(*DECODE_ERRORS):
                items.append(self._item(raw_item, _ITEM_TYPES[name]))
        if raw_items and not items:
            raise ValueError  # an empty list would say that nobody is on the GPU
        return items

    def _item(self, raw: Raw, struct_type: type[_T]) -> _T:
        try:
            return cast(_T, _decoder(struct_type).decode(raw))
        except DECODE_ERRORS:
            return self.decode(raw, struct_type)


def _text(raw: bytes) -> str:
    """Decode a text that may not be UTF-8: a command line can hold any bytes."""
    start = 1 if raw[0] in _FIXSTR else _HEADER_LENGTHS.get(raw[0])
    if start is None:
        raise ValueError
    return raw[start:].decode("utf-8", errors="replace")


@cache
def _decoder(message_type: Any) -> Any:
    return msgspec.msgpack.Decoder(message_type)


@cache
def _loose(struct_type: type[Struct]) -> type[Struct]:
    """Return the struct with every field left as raw bytes."""
    names = {field.name: field.encode_name for field in fields(struct_type)}
    return msgspec.defstruct(
        struct_type.__name__, [(name, Raw, Raw()) for name in names], rename=names
    )


_node_decoder = msgspec.msgpack.Decoder(NodeMessage)
