"""What cluster-smi says on the wire: maps by the names of Go's fields, figures within bounds.

Only what is used here has a field. A message that keeps the bounds is read in one go; of
one that does not, each field is read by itself, and what cannot be read is not told.
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
_PARTS = Annotated[list[Raw], Meta(max_length=20_000)]
_NIL = b"\xc0"
# The first byte of a text or of bytes that are not short, and where what it holds begins.
_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5, 0xC4: 2, 0xC5: 3, 0xC6: 5}
_SHORT = range(0xA0, 0xC0)


def _within(field: str) -> Meta:
    low, high = RANGES[field]
    return Meta(ge=int(low), le=int(high))


_Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
_Bytes = Annotated[int, _within("memory_total_bytes")]
_Percent = Annotated[int, _within("busy_percent")]
_Seconds = Annotated[int, Meta(ge=0, le=2**33)]


class MemoryMessage(Struct, rename="pascal", gc=False):
    """Bytes. There is a `Percentage` too, which is always 0."""

    used: _Bytes | None = None
    total: _Bytes | None = None


class ProcessMessage(Struct, rename="pascal", gc=False):
    """A process that computes; `extended_command` is its command line with NULs in it."""

    pid: Annotated[int, _within("pid")] | None = None
    used_gpu_memory: _Bytes | None = None
    name: _Text = ""
    username: _Text = ""
    run_time: _Seconds | None = None
    extended_command: Annotated[str, Meta(max_length=max_length("command"))] = ""


class DeviceMessage(Struct, rename="pascal", gc=False):
    """A GPU; a node of 2018 tells its first four fields alone."""

    id: Annotated[int, _within("index")] | None = None
    name: _Text = ""
    utilization: _Percent | None = None
    memory_utilization: MemoryMessage | None = None
    fan_speed: Annotated[int, _within("fan_percent")] | None = None
    temperature: Annotated[int, _within("temperature_celsius")] | None = None
    power_usage: Annotated[int, _within("power_watts")] | None = None
    processes: (
        Annotated[list[ProcessMessage], Meta(max_length=MAX_ITEMS["processes"])] | UnsetType | None
    ) = UNSET


class NodeMessage(Struct, rename="pascal", gc=False):
    """A node. One of 2018 has neither times nor a comment; a fork has the last two as well."""

    name: _Text = ""
    devices: Annotated[list[DeviceMessage], Meta(max_length=MAX_ITEMS["gpus"])] | None = None
    time: datetime | Annotated[list[int], Meta(max_length=2)] | None = None
    boot_time: _Seconds | None = None
    comment: _Text = ""
    cpu_util: Annotated[float, Meta(ge=0.0, le=1.0)] | None = msgspec.field(
        default=None, name="CPUUtil"
    )

    @property
    def timestamp(self) -> float | None:
        """When it was read, by the node's own clock; Go's year 1 is "not told"."""
        told = self.time
        if not told:
            return None
        seconds = told.timestamp() if isinstance(told, datetime) else float(told[0])
        return seconds if 0.0 < seconds < 2**33 else None


class _ToldCluster(Struct, rename="pascal"):
    nodes: _PARTS | None


_PARTS_OF: dict[str, type[Struct]] = {"devices": DeviceMessage, "processes": ProcessMessage}
_MOST_OF = {"devices": MAX_ITEMS["gpus"], "processes": MAX_ITEMS["processes"]}


def decode_node_message(body: bytes | Raw, lenient: "LenientMessageDecoder") -> NodeMessage:
    """One node; raise one of `UNREADABLE`, or `Undecodable` when it is too much to mend."""
    try:
        return _node.decode(body)
    except DECODE_ERRORS:
        return lenient.decode(body, NodeMessage)


def decode_cluster_message(body: bytes) -> list[Raw]:
    """The nodes that a router knows, as they came; raise one of `UNREADABLE`."""
    return _decoder(_ToldCluster).decode(body).nodes or []


class LenientMessageDecoder:
    """Reads what breaks the bounds, field by field, in so many places; more take too long."""

    def __init__(self, max_repairs: int) -> None:
        self._left = max_repairs

    def decode(self, raw: bytes | Raw, struct_type: type[_T]) -> _T:
        """What of it can be read."""
        self._left -= 1
        if self._left < 0:
            raise Undecodable("wrong in more places than is worth mending")
        loose, values = _decoder(_loose(struct_type)).decode(raw), {}
        for field in fields(struct_type):
            part: Raw = getattr(loose, field.name)
            if part:
                with suppress(*DECODE_ERRORS):
                    values[field.name] = self._field(part, field)
        return struct_type(**values)

    def _field(self, raw: Raw, field: FieldInfo) -> Any:
        if field.name in _PARTS_OF:
            return self._parts(raw, field.name)
        try:
            return _decoder(field.type).decode(raw)
        except DECODE_ERRORS:
            if field.default == "":
                # One more than there may be: so it is seen to have been cut.
                most = max_length("command" if field.name == "extended_command" else field.name)
                return _text(bytes(raw))[: most + 1]
            if field.name == "memory_utilization":
                return self.decode(raw, MemoryMessage)
            raise

    def _parts(self, raw: Raw, name: str) -> list[Any] | None:
        if raw == _NIL:
            return None
        told, found = _decoder(_PARTS).decode(raw), []
        for each in told[: _MOST_OF[name]]:
            with suppress(*DECODE_ERRORS):
                found.append(self._part(each, _PARTS_OF[name]))
        if told and not found:
            raise ValueError  # nobody there and nobody readable are not the same
        return found

    def _part(self, raw: Raw, shape: type[_T]) -> _T:
        try:
            return cast(_T, _decoder(shape).decode(raw))
        except DECODE_ERRORS:
            return self.decode(raw, shape)


def _text(raw: bytes) -> str:
    """A text that need not be UTF-8: a command line is what its user typed."""
    begins = 1 if raw[0] in _SHORT else _HEADS.get(raw[0])
    if begins is None:
        raise ValueError
    return raw[begins:].decode("utf-8", errors="replace")


@cache
def _decoder(shape: Any) -> Any:
    return msgspec.msgpack.Decoder(shape)


@cache
def _loose(shape: type[Struct]) -> type[Struct]:
    """The struct with each field as the bytes it came in."""
    names = {field.name: field.encode_name for field in fields(shape)}
    return msgspec.defstruct(shape.__name__, [(name, Raw, Raw()) for name in names], rename=names)


_node = msgspec.msgpack.Decoder(NodeMessage)
