"""The reservation book: saved, shared, shown on nodes, and released where nobody comes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from fleet_smi.errors import NotFound
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub import database
from fleet_smi.hub.database import open_database, read_transaction, write_transaction
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.reservation_tables import add_vouching_node
from fleet_smi.hub.reservations import BookingConflict, ReservationBook
from fleet_smi.model.booking_rules import Change
from fleet_smi.model.reservation import Reservation
from tests.builders import HOUR, MINUTE, NOON, gpu, process, snapshot


class BookedHub:
    """A hub with a book, whose clocks a test sets."""

    def __init__(self, engine: Engine) -> None:
        self.now = NOON
        self.elapsed = 0.0
        self.fleet = FleetState()
        self._store = NodeStore(engine, NodeCheckpoint)
        hub = Hub(self.fleet, [], self._store, clock=lambda: self.now)
        self.book = ReservationBook(engine, hub, lambda: self.elapsed)
        self._sequence = 0

    def report(self, *users: str | None) -> None:
        """A report of gpu01: one GPU per user, or a free one."""
        self._sequence += 1
        cards = [
            gpu(at, processes=() if user is None else (process(at + 1, user),))
            for at, user in enumerate(users)
        ]
        self.fleet.apply(snapshot(*cards, taken_at=self.now, sequence=self._sequence), self.now)

    def pass_time(self, seconds: float, *users: str | None) -> None:
        """Let time pass, with a report every minute, as the hub's loop does it."""
        for _ in range(round(seconds / MINUTE)):
            self.now += MINUTE
            self.elapsed += MINUTE
            if users:
                self.report(*users)
            self.look()

    def look(self) -> None:
        self.book.refresh()
        self.book.show()
        if seen := self.book.look_for_owners():
            self.book.mark(seen)

    def close(self) -> None:
        self._store.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(tmp_path / "state")
    yield opened
    opened.dispose()


@pytest.fixture
def hub(engine: Engine) -> Iterator[BookedHub]:
    opened = BookedHub(engine)
    opened.report(None, None, None, None)
    yield opened
    opened.close()


def booking(owner: str = "maria", gpus: int = 2, **fields: Any) -> Reservation:
    usual: dict[str, Any] = {
        "id": "",
        "node_id": "id-of-gpu01",
        "node": "gpu01",
        "starts_at": NOON,
        "ends_at": NOON + 12 * HOUR,
    }
    return Reservation(owner=owner, gpus=gpus, **(usual | fields))


def kept(hub: BookedHub) -> list[int]:
    view = hub.fleet.node("id-of-gpu01", hub.now)
    assert view is not None
    uuids = {uuid for shown in view.bookings for uuid in shown.kept}
    return [each.index for each in view.gpus if each.uuid in uuids]


def test_a_booking_survives_a_restart_and_another_hub_sees_it(
    hub: BookedHub, engine: Engine
) -> None:
    other = BookedHub(engine)
    made = hub.book.add(booking(note="rerun"), 4, force=False)
    other.book.refresh()
    assert other.book.find(made.id) == made
    other.book.cancel(made.id)
    hub.book.refresh()
    assert hub.book.find(made.id).state(NOON) in ("cancelled", "past")
    other.close()


def test_it_is_shown_from_its_start_to_its_end(hub: BookedHub) -> None:
    hub.book.add(booking(starts_at=NOON + HOUR, ends_at=NOON + 2 * HOUR), 4, force=False)
    hub.look()
    assert kept(hub) == []
    hub.pass_time(HOUR, None, "maria", None, None)
    assert kept(hub) == [3]
    hub.pass_time(HOUR, None, "maria", None, None)
    assert kept(hub) == []


def test_an_unused_booking_is_released_after_half_an_hour(hub: BookedHub) -> None:
    made = hub.book.add(booking(), 4, force=False)
    hub.pass_time(29 * MINUTE, "bob", None, None, None)
    assert hub.book.find(made.id).state(hub.now) == "active"
    hub.pass_time(3 * MINUTE, "bob", None, None, None)
    assert hub.book.find(made.id).state(hub.now) == "released"
    assert kept(hub) == []


def test_one_whose_owner_came_once_stays(hub: BookedHub) -> None:
    made = hub.book.add(booking(), 4, force=False)
    hub.pass_time(5 * MINUTE, "maria", None, None, None)
    hub.pass_time(2 * HOUR, None, None, None, None)
    assert hub.book.find(made.id).state(hub.now) == "active"
    assert kept(hub) == [2, 3]


def test_a_silent_node_or_a_clock_set_forward_releases_nothing(hub: BookedHub) -> None:
    made = hub.book.add(booking(), 4, force=False)
    hub.pass_time(2 * HOUR)
    assert hub.book.find(made.id).state(hub.now) == "active"
    hub.now += HOUR
    hub.report(None, None, None, None)
    hub.look()
    assert hub.book.find(made.id).state(hub.now) == "active"
    hub.now -= 4 * HOUR  # before its start: it is to come again
    assert hub.book.find(made.id).state(hub.now) == "upcoming"


def test_conflicts_are_refused_unless_forced(hub: BookedHub) -> None:
    made = hub.book.add(booking(gpus=3), 4, force=False)
    with pytest.raises(BookingConflict) as refused:
        hub.book.add(booking("omar", 2), 4, force=False)
    assert refused.value.check.conflicts[0].owners == ("maria",)
    forced = hub.book.add(booking("omar", 2), 4, force=True)
    # One's own place does not stand in one's way.
    assert hub.book.edit(made.id, Change(note="x"), 4, force=True).note == "x"
    hub.book.cancel(made.id)
    assert hub.book.edit(forced.id, Change(gpus=4), 4, force=False).gpus == 4
    with pytest.raises(NotFound):
        hub.book.cancel("nothing")


def test_bookings_at_the_same_moment_never_overlap(hub: BookedHub, engine: Engine) -> None:
    other = BookedHub(engine)
    books = [hub.book, other.book] * 6

    def attempt(at: int) -> bool:
        try:
            books[at].add(booking(f"p{at}", 2), 4, force=False)
        except BookingConflict:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(attempt, range(12))) == 2
    other.close()


def test_a_calendar_address_is_replaced_and_revoked(hub: BookedHub) -> None:
    first = hub.book.create_feed("maria", is_account=True)
    second = hub.book.create_feed("maria", is_account=True)
    assert hub.book.feed_owner(first) is None
    assert hub.book.feed_owner(second) == ("maria", True)
    assert hub.book.remove_feed("maria")
    assert hub.book.feed_owner(second) is None


def test_a_clock_that_jumps_deletes_nobooking(hub: BookedHub) -> None:
    def ids() -> list[str]:
        return [one.id for one in hub.book.all()]

    old = hub.book.add(booking(), 4, force=True).id
    hub.now += 365 * 24 * HOUR
    wrong = hub.book.add(booking(starts_at=hub.now, ends_at=hub.now + HOUR), 4, force=True)
    assert old in ids()
    hub.book.cancel(wrong.id)
    hub.now -= 365 * 24 * HOUR
    assert hub.book.cancel(old).id in ids()
    # What ended long ago is deleted by a clock that has been steady for a day.
    hub.now += 120 * 24 * HOUR
    hub.elapsed += 120 * 24 * HOUR
    hub.book.add(booking(starts_at=hub.now, ends_at=hub.now + HOUR), 4, force=True)
    hub.now += 24 * HOUR
    hub.elapsed += 24 * HOUR
    hub.book.add(booking(starts_at=hub.now, ends_at=hub.now + HOUR), 4, force=True)
    assert old not in ids()


def test_an_older_database_gets_the_node_that_vouched(tmp_path: Path) -> None:
    opened = open_database(tmp_path / "state")
    with write_transaction(opened) as connection:
        connection.execute(text("ALTER TABLE reservations DROP COLUMN via"))
        version = 1 + database.MIGRATIONS.index(add_vouching_node)
        database.set_fact(connection, "schema", str(version))
    opened.dispose()
    again = open_database(tmp_path / "state")
    with read_transaction(again) as connection:
        assert connection.scalar(text("SELECT count(via) FROM reservations")) == 0
    again.dispose()


def test_an_older_database_gets_the_tables(tmp_path: Path) -> None:
    opened = open_database(tmp_path / "state")
    with write_transaction(opened) as connection:
        connection.execute(text("DROP TABLE reservations"))
        connection.execute(text("DROP TABLE calendar_feeds"))
        connection.execute(text("DELETE FROM facts WHERE name = 'reservations_revision'"))
        version = 1 + database.MIGRATIONS.index(database.add_reservations)
        database.set_fact(connection, "schema", str(version))
    opened.dispose()
    again = open_database(tmp_path / "state")
    with read_transaction(again) as connection:
        assert connection.scalar(text("SELECT count(*) FROM reservations")) == 0
        assert database.read_fact(connection, "reservations_revision") is not None
    again.dispose()
