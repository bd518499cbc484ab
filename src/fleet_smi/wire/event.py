"""The live stream: server-sent events that say what the fleet is, and then what changes.

A `fleet` event is everything, a `change` what is new since the event before it. Their data is
one line of JSON, and of one shape:

    {"taken_at": 1763251915.2,
     "summary": {"gpus": 16, "free": 3, "busy": 12, …, "nodes": 2, "nodes_reporting": 2},
     "nodes": [{"number": 7, "node_id": "5fec…", "name": "gpu01", "silent": false, "via": "push",
                "trouble": null, "warnings": 0, "labels": {"rack": "r1"},
                "driver_version": "550.90.07",
                "gpus": [{"uuid": "GPU-…", "index": 0, "name": "NVIDIA H100 80GB HBM3",
                          "memory_total_mebibytes": 81559,
                          "verdict": {"state": "busy", "since": 1763251000.5, "reason": null,
                                      "was": null, "users": ["alice"], "idle_since": null,
                                      "notes": ["shared"]},
                          "instances": []}]}],
     "removed": [3],
     "figures": [[7, 1763251915, 53, 40, [[96, 71026, 65, 365]]]]}

* `nodes` are always whole (`NodeBrief`): all of them in `fleet`; in `change` those that are new,
  or of which more than a figure changed. `removed` has the numbers of those that are gone.
* `figures` has for a node `[number, heard_at, cpu_percent, memory_percent, parts]`, and in `parts`
  for each of its GPUs, each followed by its instances, `[busy_percent, memory_used_mebibytes,
  temperature_celsius, power_watts]`. `null` is not measured. In a `change`, `"="` in the place of
  a figure or of a whole row is "as before"; the figures of a node in `nodes` have none.

Times are seconds since 1970 by the hub's clock. Nodes come in no order that means anything. An
id is the hub's life and a count, `<life>-<n>`. A bare comment now and then keeps the connection
alive. No command line is ever in the stream, so that one encoding serves every role.
"""

import zlib
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from fleet_smi.errors import Undecodable
from fleet_smi.model.fleet import Summary
from fleet_smi.model.stream_payload import DeviceFigures, FleetPayload, NodeFigures, NodePayload
from fleet_smi.wire.error_text import describe_error

EventKind = Literal["fleet", "change"]
Unchanged = Literal["="]
FigureDiff = int | Unchanged | None
RowDiff = tuple[FigureDiff, FigureDiff, FigureDiff, FigureDiff]

UNCHANGED: Unchanged = "="
KEEPALIVE = b":\n\n"
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RAW_DEFLATE = -15
# Figures are mostly random digits: more effort finds little more, at several times the cost.
_LEVEL = 3
_MOST_DIGITS = 15
_TIME_DECIMALS = 3
_UNKNOWN = DeviceFigures(None, None)


class NodeFiguresDiff(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one node that are other than before."""

    number: int
    heard_at: int | None
    cpu_percent: FigureDiff
    memory_percent: FigureDiff
    parts: tuple[RowDiff | Unchanged, ...]


class StreamUpdate(Struct, frozen=True, kw_only=True):
    """What is to be told: the whole fleet, or what has changed of it."""

    summary: Summary
    nodes: Sequence[NodePayload]
    figures: Sequence[NodeFigures | NodeFiguresDiff]
    removed: Sequence[int] = ()


class Event(Struct, frozen=True, kw_only=True):
    """The data of an event of either kind, as a listener reads it."""

    taken_at: float
    summary: Summary
    nodes: tuple[NodePayload, ...] = ()
    removed: tuple[int, ...] = ()
    figures: tuple[NodeFiguresDiff, ...] = ()


def format_event_id(epoch: str, sequence: int) -> str:
    """The id of an event: which life of the hub, and which event of it."""
    return f"{epoch}-{sequence}"


def parse_event_id(event_id: str, epoch: str) -> int | None:
    """The count in the id of an event; `None` when it is of another life, or is no id."""
    its_life, _, count = event_id.rpartition("-")
    known = its_life == epoch and count.isascii() and count.isdigit()
    return int(count) if known and len(count) <= _MOST_DIGITS else None


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
    """One event, framed."""
    data = encode_event_data(taken_at, update)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), kind.encode(), data)


def decode_event(data: bytes | str) -> Event:
    """The event in this data; raise `Undecodable`."""
    try:
        return msgspec.json.decode(data, type=Event)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"not an event: {describe_error(error)}") from None


def gzip_block(data: bytes) -> bytes:
    """Compressed so that it fits into any gzip stream, whatever came before it there.

    A stream is `GZIP_HEADER` and then blocks. A block refers to nothing outside itself and
    ends with a full flush: one compression serves every listener.
    """
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    return compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)


def diff_figures(before: NodeFigures, after: NodeFigures) -> NodeFiguresDiff:
    """What of a node's figures is other than before; it has as many parts as it had."""
    parts = zip(before.parts, after.parts, strict=True)
    return NodeFiguresDiff(
        after.number,
        after.heard_at,
        UNCHANGED if before.cpu_percent == after.cpu_percent else after.cpu_percent,
        UNCHANGED if before.memory_percent == after.memory_percent else after.memory_percent,
        tuple([UNCHANGED if old == new else _row(old, new) for old, new in parts]),
    )


def apply_event(fleet: FleetPayload | None, event: Event) -> FleetPayload:
    """The fleet after a change; or, where none is known yet, what a `fleet` event says."""
    nodes = {} if fleet is None else dict(fleet.nodes)
    figures = {} if fleet is None else dict(fleet.figures)
    for number in event.removed:
        nodes.pop(number, None)
        figures.pop(number, None)
    nodes.update((node.number, node) for node in event.nodes)
    figures.update((row.number, _merged(figures.get(row.number), row)) for row in event.figures)
    return FleetPayload(
        taken_at=event.taken_at, summary=event.summary, nodes=nodes, figures=figures
    )


def _row(old: DeviceFigures, new: DeviceFigures) -> RowDiff:
    busy, memory = new.busy_percent, new.memory_used_mebibytes
    temperature, power = new.temperature_celsius, new.power_watts
    return (
        UNCHANGED if busy == old.busy_percent else busy,
        UNCHANGED if memory == old.memory_used_mebibytes else memory,
        UNCHANGED if temperature == old.temperature_celsius else temperature,
        UNCHANGED if power == old.power_watts else power,
    )


def _merged(known: NodeFigures | None, row: NodeFiguresDiff) -> NodeFigures:
    before = known or NodeFigures(row.number, None, None, None, ())
    parts = zip(row.parts, chain(before.parts, repeat(_UNKNOWN)), strict=False)
    return NodeFigures(
        row.number,
        row.heard_at,
        before.cpu_percent if row.cpu_percent == UNCHANGED else row.cpu_percent,
        before.memory_percent if row.memory_percent == UNCHANGED else row.memory_percent,
        tuple([old if new == UNCHANGED else _figures(old, new) for new, old in parts]),
    )


def _figures(old: DeviceFigures, new: RowDiff) -> DeviceFigures:
    pairs = zip(astuple(old), new, strict=True)
    return DeviceFigures(*[before if now == UNCHANGED else now for before, now in pairs])
