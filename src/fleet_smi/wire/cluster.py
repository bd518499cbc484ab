"""Messages between the hubs of a cluster: judged nodes in brief, and the presence of each hub.

A hub numbers its nodes and its messages. A node is sent whole when more than its figures changed;
otherwise one row of figures per GPU and instance follows, `None` where a row is unchanged. Ages
are sent instead of times, so that the clocks of two hubs are never compared.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from fleet_smi.errors import Undecodable
from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.snapshot import Gpu, Host, Instance
from fleet_smi.wire.sanitize import is_printable_json, sanitize_texts

_Device = TypeVar("_Device", JudgedGpu, JudgedInstance)
_PLAIN, _COMPRESSED = b"\x00", b"\x01"
_COMPRESS_FROM_BYTES = 16 << 10
_MAX_BYTES = 64 << 20
MAX_BRIEF_BYTES = 384 << 10
"""Of one node in a message. NATS carries no message above 1 MiB, and one has many nodes."""
_TOO_LARGE = "too large to be sent between hubs: only the hub that it reports to shows its GPUs"


class FigureRow(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one GPU or instance that fleet views show; `None` is not measured."""

    busy_percent: float | None
    memory_used_bytes: int | None
    temperature_celsius: float | None = None
    power_watts: float | None = None


class NodeUpdate(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one node that changed."""

    number: int
    age_seconds: float
    rows: tuple[FigureRow | None, ...]


class BriefNode(Struct, frozen=True, array_like=True, gc=False):
    """One node, whole; `epoch` counts its owners, and is `None` from a hub that is none of them."""

    number: int
    epoch: int | None
    view: NodeView


class Changes(Struct, frozen=True, array_like=True, tag="changes"):
    """What changed at one hub since its message before, which had the `sequence` below."""

    hub: str
    instance: str
    sequence: int
    nodes: tuple[Raw, ...] = ()
    updates: tuple[NodeUpdate, ...] = ()
    removed: tuple[str, ...] = ()
    """Ids of nodes that an administrator removed."""


class HubPresence(Struct, frozen=True, kw_only=True, array_like=True, tag="presence"):
    """A sign of life of a hub, by its own clock; `sequence` is that of its last `Changes`."""

    hub: str
    instance: str
    name: str
    now: float
    sequence: int
    is_leaving: bool = False


class CredentialsChanged(Struct, frozen=True, array_like=True, tag="credentials"):
    """Tokens or users changed: they are to be read again."""

    hub: str


Message = Changes | HubPresence | CredentialsChanged
_encoder = msgspec.msgpack.Encoder()
_json = msgspec.json.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_node_decoder = msgspec.msgpack.Decoder(BriefNode)


def encode_message(message: Struct) -> bytes:
    """Encode a message, compressed where it is large."""
    data = _encoder.encode(message)
    if len(data) < _COMPRESS_FROM_BYTES:
        return _PLAIN + data
    return _COMPRESSED + zlib.compress(data, 1)


def encode_brief(node: BriefNode) -> Raw:
    """Encode one node of a message; whatever fails in it costs no other node."""
    return Raw(_encoder.encode(node))


def encode_fitting_brief(node: BriefNode) -> tuple[Raw, NodeView]:
    """Encode one node of a message; return with it what is sent of one that is too large."""
    encoded = encode_brief(node)
    for shorten in (_without_details, _without_gpus):
        if len(encoded) <= MAX_BRIEF_BYTES:
            break
        node = BriefNode(node.number, node.epoch, shorten(node.view))
        encoded = encode_brief(node)
    return encoded, node.view


def decode_message(data: bytes) -> Message:
    """Decode a message; raise `Undecodable`."""
    try:
        message: Message = _decoder.decode(_unpack(data))
    except (msgspec.MsgspecError, ValueError, zlib.error, RecursionError) as error:
        raise Undecodable(f"a message of another hub: {error}") from None
    return message


def decode_brief(data: Raw) -> BriefNode:
    """Decode one node of a message; raise `Undecodable`."""
    try:
        brief = _node_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Undecodable(f"a node in a message of another hub: {error}") from None
    return BriefNode(brief.number, brief.epoch, sanitize_view(brief.view))


def sanitize_view(view: NodeView) -> NodeView:
    """Return a node of another hub with printable texts, as its hub should have sent it."""
    # Again: anybody who reaches the message bus can write to it.
    encoded = _json.encode(view)
    if is_printable_json(encoded):
        return view
    return msgspec.convert(sanitize_texts(msgspec.json.decode(encoded)), NodeView)


def figure_rows(gpus: Iterable[Gpu]) -> tuple[FigureRow, ...]:
    """The rows of these GPUs, each followed by those of its instances."""
    rows: list[FigureRow] = []
    for gpu in gpus:
        rows.append(_row(gpu))
        rows += [_row(instance) for instance in gpu.instances]
    return tuple(rows)


def diff_rows(
    before: Sequence[FigureRow], after: Sequence[FigureRow]
) -> tuple[FigureRow | None, ...]:
    """The rows that changed, `None` for the others; both have the same length."""
    return tuple([None if old == new else new for old, new in zip(before, after, strict=True)])


def _without_details(view: NodeView) -> NodeView:
    """Leave out what only the details of a node show, which come from its owner."""

    def shorten(device: _Device) -> _Device:
        listed = device.processes
        processes = listed and tuple([replace(process, command=None) for process in listed])
        return replace(device, unread={}, processes=processes)

    gpus = [
        replace(shorten(gpu), instances=tuple(map(shorten, gpu.instances))) for gpu in view.gpus
    ]
    return replace(
        view, gpus=tuple(gpus), runs=tuple([replace(run, detail="") for run in view.runs])
    )


def _without_gpus(view: NodeView) -> NodeView:
    trouble = "; ".join(filter(None, (_TOO_LARGE, view.trouble)))
    return replace(view, gpus=(), runs=(), labels={}, host=Host(), trouble=trouble)


def _row(device: Gpu | Instance) -> FigureRow:
    if isinstance(device, Gpu):
        return FigureRow(
            device.busy_percent,
            device.memory_used_bytes,
            device.temperature_celsius,
            device.power_watts,
        )
    return FigureRow(device.busy_percent, device.memory_used_bytes)


def _unpack(data: bytes) -> bytes:
    kind, body = data[:1], data[1:]
    if kind == _PLAIN:
        return body
    if kind != _COMPRESSED:
        raise ValueError("unknown encoding")
    # Bounded: a small message must not decompress to all of the memory.
    decompressor = zlib.decompressobj()
    body = decompressor.decompress(body, _MAX_BYTES)
    if not decompressor.eof:
        raise ValueError("it is too large or cut short")
    return body
