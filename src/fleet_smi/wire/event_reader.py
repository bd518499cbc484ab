"""The other end of the live stream: decode its events and keep a fleet up to date by them."""

from itertools import chain, repeat

import msgspec
from msgspec.structs import astuple

from fleet_smi.model.stream_payload import DeviceFigures, FleetPayload, NodeFigures
from fleet_smi.wire.event import UNCHANGED, Event, NodeFiguresDiff, RowDiff
from fleet_smi.wire.sanitize import is_printable_json, sanitize_texts

_UNKNOWN = DeviceFigures(None, None)


def decode_event(data: bytes | str) -> Event:
    """Decode the data of an event; its texts are printable, whoever sent them.

    Raise `ValueError` or `RecursionError` if it is none.
    """
    encoded = data.encode() if isinstance(data, str) else data
    if is_printable_json(encoded):
        return msgspec.json.decode(encoded, type=Event)
    return msgspec.convert(sanitize_texts(msgspec.json.decode(encoded)), Event)


def apply_event(fleet: FleetPayload | None, event: Event) -> FleetPayload:
    """Return the fleet after an event; `fleet` is `None` before the first one."""
    nodes = {} if fleet is None else dict(fleet.nodes)
    figures = {} if fleet is None else dict(fleet.figures)
    for number in event.removed:
        nodes.pop(number, None)
        figures.pop(number, None)
    nodes.update((node.number, node) for node in event.nodes)
    for row in event.figures:
        figures[row.number] = apply_figures(figures.get(row.number), row)
    return FleetPayload(
        taken_at=event.taken_at, summary=event.summary, nodes=nodes, figures=figures
    )


def apply_figures(known: NodeFigures | None, diff: NodeFiguresDiff) -> NodeFigures:
    """Return the figures of a node after an event; `known` are those before it, if any."""
    before = known or NodeFigures(diff.number, None, None, None, ())
    # Rows without a base: "unchanged" becomes unknown rather than a wrong value.
    rows = zip(diff.parts, chain(before.parts, repeat(_UNKNOWN)), strict=False)
    return NodeFigures(
        diff.number,
        diff.reported_at,
        before.cpu_percent if diff.cpu_percent == UNCHANGED else diff.cpu_percent,
        before.memory_percent if diff.memory_percent == UNCHANGED else diff.memory_percent,
        tuple([old if new == UNCHANGED else _apply_row(old, new) for new, old in rows]),
    )


def _apply_row(old: DeviceFigures, new: RowDiff) -> DeviceFigures:
    pairs = zip(astuple(old), new, strict=True)
    return DeviceFigures(*[before if now == UNCHANGED else now for before, now in pairs])
