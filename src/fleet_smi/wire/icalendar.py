"""iCalendar (RFC 5545): reservations as a calendar that other programs subscribe to."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone

from fleet_smi.model.reservation import Reservation

MEDIA_TYPE = "text/calendar; charset=utf-8"
_MAX_LINE_BYTES = 75
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\r": ""})


def encode_calendar(
    reservations: Iterable[Reservation], node_names: Mapping[str, str], title: str
) -> bytes:
    """Encode reservations as one calendar; `node_names` are the current ones, by node id."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//fleet-smi//reservations//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{_text(title)}",
        "REFRESH-INTERVAL;VALUE=DURATION:PT15M",
        "X-PUBLISHED-TTL:PT15M",
    ]
    for one in reservations:
        lines += _event(one, node_names.get(one.node_id, one.node))
    lines.append("END:VCALENDAR")
    return b"".join([part for line in lines for part in _fold(line)])


def _event(one: Reservation, node: str) -> list[str]:
    gpus = "1 GPU" if one.gpus == 1 else f"{one.gpus} GPUs"
    # One that was released ended then: the rest of its time is free again.
    end = one.ends_at if one.released_at is None else max(one.starts_at, one.released_at)
    note = [f"DESCRIPTION:{_text(one.note)}"] if one.note else []
    return [
        "BEGIN:VEVENT",
        f"UID:{one.id}-{int(one.created_at)}@fleet-smi",
        f"DTSTAMP:{_utc(one.changed_at)}",
        f"CREATED:{_utc(one.created_at)}",
        f"LAST-MODIFIED:{_utc(one.changed_at)}",
        f"SEQUENCE:{one.sequence}",
        f"DTSTART:{_utc(one.starts_at)}",
        f"DTEND:{_utc(end)}",
        f"SUMMARY:{_text(f'{node}: {gpus}, {one.owner}')}",
        f"LOCATION:{_text(node)}",
        *note,
        f"STATUS:{'CONFIRMED' if one.cancelled_at is None else 'CANCELLED'}",
        "END:VEVENT",
    ]


def _text(value: str) -> str:
    return value.translate(_ESCAPES)


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y%m%dT%H%M%SZ}"


def _fold(line: str) -> Iterator[bytes]:
    """Yield a line in parts of at most 75 bytes, none of which splits a character."""
    part, indent = b"", b""
    for character in line:
        encoded = character.encode()
        if len(indent) + len(part) + len(encoded) > _MAX_LINE_BYTES:
            yield indent + part + b"\r\n"
            part, indent = b"", b" "
        part += encoded
    yield indent + part + b"\r\n"
