"""JSON encoding of the fleet and its users, in the model's own field names.

What is not measured is `null`; times are seconds since 1970.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from fleet_smi.model.fleet import FleetView, Summary

_INDENT = 2


def to_json(value: Any, *, pretty: bool = False) -> bytes:
    """Encode any struct, or list of structs, as JSON; `pretty` indents it for reading."""
    encoded = msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=_INDENT) if pretty else encoded


def fleet_json(view: FleetView, *, pretty: bool = False) -> bytes:
    """Encode the fleet in the shape of `GET /api/v1/fleet`."""
    return to_json(view, pretty=pretty)


def fleet_json_from_encoded(taken_at: float, summary: Summary, nodes: Sequence[bytes]) -> bytes:
    """Encode the fleet in the same shape, from nodes that are encoded already."""
    encoded = [msgspec.Raw(node) for node in nodes]
    return to_json({"taken_at": taken_at, "summary": summary, "nodes": encoded})
