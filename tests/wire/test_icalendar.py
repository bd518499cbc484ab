"""The calendar feed, read by an independent reader of RFC 5545."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from icalendar import Calendar

from fleet_smi.model.reservation import Reservation
from fleet_smi.wire.icalendar import encode_calendar
from tests.builders import HOUR, NOON


def booking(**fields: Any) -> Reservation:
    usual: dict[str, Any] = {
        "id": "3f9a1c20",
        "owner": "maria",
        "node_id": "n1",
        "node": "gpu03",
        "gpus": 4,
        "starts_at": NOON,
        "ends_at": NOON + 12 * HOUR,
        "created_at": NOON - HOUR,
        "changed_at": NOON - HOUR,
    }
    return Reservation(**(usual | fields))


def events(*reservations: Reservation, **names: str) -> list[Any]:
    calendar = Calendar.from_ical(encode_calendar(reservations, names, "GPUs"))
    assert calendar["VERSION"] == "2.0"
    return list(calendar.walk("VEVENT"))


def test_an_event_has_the_times_the_owner_and_the_current_name_of_the_node() -> None:
    (event,) = events(booking(note="paper; rerun, 2"), n1="big-one")
    assert str(event["SUMMARY"]) == "big-one: 4 GPUs, maria"
    assert str(event["DESCRIPTION"]) == "paper; rerun, 2"
    assert event.decoded("DTSTART") == datetime.fromtimestamp(NOON, UTC)
    assert event.decoded("DTEND") == datetime.fromtimestamp(NOON + 12 * HOUR, UTC)
    assert (event["STATUS"], event["SEQUENCE"]) == ("CONFIRMED", 0)


def test_a_change_keeps_the_uid_and_raises_the_sequence() -> None:
    (before,) = events(booking())
    (after,) = events(booking(sequence=2, starts_at=NOON + HOUR, changed_at=NOON))
    assert after["UID"] == before["UID"]
    assert after["SEQUENCE"] == 2
    assert after.decoded("DTSTAMP") > before.decoded("DTSTAMP")


def test_a_cancelled_one_says_so_and_a_released_one_ends_then() -> None:
    cancelled, released = events(
        booking(cancelled_at=NOON), booking(id="b", released_at=NOON + HOUR)
    )
    assert cancelled["STATUS"] == "CANCELLED"
    assert released.decoded("DTEND") == datetime.fromtimestamp(NOON + HOUR, UTC)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=200))
def test_any_note_survives_folding_and_escaping(note: str) -> None:
    data = encode_calendar([booking(note=note)], {}, "GPUs")
    lines = data.split(b"\r\n")
    assert all(len(line) <= 75 for line in lines)
    assert b"\n" not in data.replace(b"\r\n", b"")
    (event,) = Calendar.from_ical(data).walk("VEVENT")
    assert str(event.get("DESCRIPTION", "")) == note
