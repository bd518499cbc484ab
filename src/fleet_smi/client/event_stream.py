"""The live stream of a hub (server-sent events), read over a connection of its own."""

from collections.abc import Iterator

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import Undecodable
from fleet_smi.wire.event import Event, EventKind
from fleet_smi.wire.event_reader import decode_event

MAX_EVENT_BYTES = 128 << 20


def read_events(connection: HubConnection, path: str) -> Iterator[tuple[EventKind, Event] | None]:
    """Yield the events of a stream, and `None` for each keepalive, until the hub ends it.

    Raise a `DeliveryError` where the hub cannot be reached, refuses, or sends no events.
    """
    buffer = bytearray()
    for chunk in connection.stream(path, MAX_EVENT_BYTES):
        start = max(0, len(buffer) - 1)  # the separator may be split between two chunks
        buffer += chunk
        while (end := buffer.find(b"\n\n", start)) >= 0:
            block, start = bytes(buffer[:end]), 0
            del buffer[: end + 2]
            yield _parse_block(block)
        if len(buffer) > MAX_EVENT_BYTES:
            raise Undecodable(f"an event of hub {connection.url} is too large")


def _parse_block(block: bytes) -> tuple[EventKind, Event] | None:
    fields: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        if name and colon:
            fields[name] = value.removeprefix(b" ")
    kind = fields.get(b"event")
    if kind not in (b"fleet", b"change"):
        return None  # a comment, which keeps the connection alive
    try:
        event = decode_event(fields.get(b"data", b""))
    except (ValueError, RecursionError):
        raise Undecodable(
            "cannot parse its stream: check that both hubs have the same version"
        ) from None
    return ("fleet" if kind == b"fleet" else "change"), event
