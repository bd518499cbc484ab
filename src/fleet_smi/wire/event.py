"""The events of the live stream (server-sent events): encoding and diff.

A `fleet` event has the whole fleet, a `change` event what differs from the event before it. The
data of both is one line of JSON of one shape:

    {"taken_at": 1763251915.2,
     "summary": {"gpus": 16, "free": 3, "busy": 12, …, "nodes": 2, "nodes_reporting": 2},
     "nodes": [{"number": 7, "node_id": "5fec…", "name": "gpu01", "silent": false, "via": "push",
                "trouble": null, "warnings": 0, "ssh_host": "10.0.0.1",
                "labels": {"rack": "r1"}, "driver_version": "550.90.07", "site": null,
                "gpus": [{"uuid": "GPU-…", "index": 0, "vendor": "nvidia",
                          "name": "NVIDIA H100 80GB HBM3", "memory_total_mebibytes": 81559,
                          "verdict": {"state": "busy", "since": 1763251000.5, "reason": null,
                                      "was": null, "users": ["alice"], "idle_since": null,
                                      "notes": ["shared"]},
                          "instances": []}]}],
     "removed": [3],
     "figures": [[7, 1763251915, 53, 40, [[96, 71026, 65, 365]]]]}

* `nodes` are always complete (`NodePayload`): all of them in `fleet`; in `change` those that are
  new, or of which more than a figure changed. `removed` are the numbers of those that are gone.
* `figures` has for a node `[number, reported_at, cpu_percent, memory_percent, parts]`, and in
  `parts` for each of its GPUs, each followed by its instances, `[busy_percent,
  memory_used_mebibytes, temperature_celsius, power_watts]`. `null` is not measured. In a `change`,
  `"="` in the place of a figure or of a whole row means unchanged; the figures of a node in
  `nodes` have no `"="`.

Times are seconds since 1970 by the hub's clock. Nodes are in no particular order. An event id is
the epoch of the hub (one run of it) and a counter, `<epoch>-<n>`. A comment line now and then
keeps the connection alive. No command line is ever in the stream, so that one encoding serves
every role.
"""

import zlib
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from fleet_smi.model.fleet import Summary
from fleet_smi.model.stream_payload import DeviceFigures, NodeFigures, NodePayload

EventKind = Literal["fleet", "change"]
Unchanged = Literal["="]
FigureDiff = int | Unchanged | None
RowDiff = tuple[FigureDiff, FigureDiff, FigureDiff, FigureDiff]

UNCHANGED: Unchanged = "="
KEEPALIVE = b":\n\n"
# RFC 1952: magic number, deflate, no flags, no time, unknown operating system.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW_DEFLATE = -15  # zlib's window bits: negative means no header or checksum around a block
# Figures are mostly random digits: a higher level saves little, at several times the cost.
_COMPRESSION_LEVEL = 3
_MAX_DIGITS = 15  # a client chooses the id: no number of a thousand digits is parsed
_TIME_DECIMALS = 3


class NodeFiguresDiff(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one node that differ from the event before."""

    number: int
    reported_at: int | None
    cpu_percent: FigureDiff
    memory_percent: FigureDiff
    parts: tuple[RowDiff | Unchanged, ...]


class StreamUpdate(Struct, frozen=True, kw_only=True):
    """What an event sends: the whole fleet, or what has changed of it."""

    summary: Summary
    nodes: Sequence[NodePayload]
    figures: Sequence[NodeFigures | NodeFiguresDiff]
    removed: Sequence[int] = ()


class Event(Struct, frozen=True, kw_only=True):
    """The data of an event of either kind, as a subscriber decodes it."""

    taken_at: float
    summary: Summary
    nodes: tuple[NodePayload, ...] = ()
    removed: tuple[int, ...] = ()
    figures: tuple[NodeFiguresDiff, ...] = ()


def format_event_id(epoch: str, sequence: int) -> str:
    """Return the id of an event: the epoch of the hub, and the number of the event."""
    return f"{epoch}-{sequence}"


def parse_event_id(event_id: str, epoch: str) -> int | None:
    """Return the number in an event id; `None` when it is invalid or of another epoch."""
    its_epoch, _, number = event_id.rpartition("-")
    valid = its_epoch == epoch and number.isascii() and number.isdigit()
    return int(number) if valid and len(number) <= _MAX_DIGITS else None


def encode_event_data(taken_at: float, update: StreamUpdate) -> bytes:
    """Encode the data of one event as JSON, without the framing of server-sent events."""
    return msgspec.json.encode(
        {
            "taken_at": round(taken_at, _TIME_DECIMALS),
            "summary": update.summary,
            "nodes": update.nodes,
            "removed": update.removed,
            "figures": update.figures,
        }
    )


def encode_event(kind: EventKind, event_id: str, taken_at: float, update: StreamUpdate) -> bytes:
    """Encode one event with the framing of server-sent events."""
    # JSON escapes line breaks in texts, so that the data is one line and no name can end it.
    data = encode_event_data(taken_at, update)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), kind.encode(), data)


def encode_isolated(
    kind: EventKind, event_id: str, taken_at: float, update: StreamUpdate
) -> tuple[bytes, dict[int, Exception]]:
    """Encode one event, without nodes that cannot be encoded; return the errors of these."""
    try:
        return encode_event(kind, event_id, taken_at, update), {}
    except Exception:  # noqa: BLE001  # one node must not keep the others from subscribers
        failures: dict[int, Exception] = {}
        for item in (*update.nodes, *update.figures):
            try:
                msgspec.json.encode(item)
            except Exception as error:  # noqa: BLE001
                failures[item.number] = error
        rest = StreamUpdate(
            summary=update.summary,
            nodes=[node for node in update.nodes if node.number not in failures],
            figures=[row for row in update.figures if row.number not in failures],
            removed=[*update.removed, *failures],
        )
        return encode_event(kind, event_id, taken_at, rest), failures


def gzip_block(data: bytes) -> bytes:
    """Compress to a block that can be appended to any gzip stream.

    A stream is `GZIP_HEADER` followed by blocks. A block refers to nothing outside itself and
    ends with a full flush, so that one compression serves every subscriber.
    """
    compressor = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    return compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)


def diff_figures(before: NodeFigures, after: NodeFigures) -> NodeFiguresDiff:
    """Return the diff of a node's figures; the number of its rows must be the same."""
    rows = zip(before.parts, after.parts, strict=True)
    return NodeFiguresDiff(
        after.number,
        after.reported_at,
        UNCHANGED if before.cpu_percent == after.cpu_percent else after.cpu_percent,
        UNCHANGED if before.memory_percent == after.memory_percent else after.memory_percent,
        tuple([UNCHANGED if old == new else _diff_row(old, new) for old, new in rows]),
    )


def _diff_row(old: DeviceFigures, new: DeviceFigures) -> RowDiff:
    busy, memory = new.busy_percent, new.memory_used_mebibytes
    temperature, power = new.temperature_celsius, new.power_watts
    return (
        UNCHANGED if busy == old.busy_percent else busy,
        UNCHANGED if memory == old.memory_used_mebibytes else memory,
        UNCHANGED if temperature == old.temperature_celsius else temperature,
        UNCHANGED if power == old.power_watts else power,
    )
