"""The reservation book: bookings in memory, refreshed from the database, and their upkeep.

Several hubs may share the database: each reads it again when it has changed. What is shown on
nodes follows the time, and a booking whose owner does not come is released.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine

from fleet_smi.errors import NotFound, UsageError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.queue.request_pace import RequestPace
from fleet_smi.hub.reservation_store import FeedOwner, ReservationStore
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.model.booked_gpus import is_used_by, shown_bookings
from fleet_smi.model.booking_rules import (
    Change,
    apply_change,
    check_limits,
    check_reservation,
    end_reservation,
    is_to_be_released,
)
from fleet_smi.model.reservation import BookingCheck, Reservation, check_booking
from fleet_smi.wire.credential_proof import credential_digest

logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_KEEP_SECONDS = 90 * 86400.0
_STEADY_SECONDS = 86400.0
_Shown = dict[str, list[Reservation]]


class BookingConflict(UsageError):
    """A booking that does not fit beside the others; `check` says when, and what would."""

    def __init__(self, check: BookingCheck) -> None:
        super().__init__("more GPUs would be booked than the node has")
        self.check = check


class ReservationBook:
    """The reservations of one hub, or of all hubs of a cluster."""

    def __init__(
        self, engine: Engine, hub: Hub, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = ReservationStore(engine)
        self._hub = hub
        self._monotonic = monotonic
        self.pace = RequestPace(monotonic)
        """How often people may make and change bookings."""
        self._all: Sequence[Reservation] = ()
        self._feeds: Mapping[bytes, FeedOwner] = {}
        self._signature: Any = None
        # Since when the node of an unused booking has been watched without a break.
        self._watched: dict[str, float] = {}
        # When the clock was last found to be right or set, by the clock and by elapsed time.
        self._steady_since = hub.clock(), monotonic()
        self._failures = FailureLog(logger, "reservations")
        self.refresh()

    def all(self) -> Sequence[Reservation]:
        """Every reservation of the last months, by its start."""
        return self._all

    def find(self, reservation_id: str) -> Reservation:
        """One reservation; raise `NotFound`."""
        for one in self._all:
            if one.id == reservation_id:
                return one
        raise NotFound(f"no booking has the id {reservation_id}: see `fleet-smi reserve list`")

    def with_bookings(self, person: str | None) -> str | None:
        """The person, if they have a booking now; `None` for all others."""
        now = self._hub.clock()
        owns = any(one.owner == person and one.is_active(now) for one in self._all)
        return person if owns else None

    def feed_owner(self, secret: str) -> FeedOwner | None:
        """Who made the address of a calendar, and whether by an account of this hub."""
        return self._feeds.get(credential_digest(secret))

    def refresh(self) -> None:
        """Load what has changed. Blocking."""
        found = self._store.read_changed()
        if found is not None:
            self._all, self._feeds = found

    def check(
        self, one: Reservation, node_gpus: int | None, in_the_way: tuple[str, ...] = ()
    ) -> BookingCheck:
        """Whether a booking fits beside the others; raise `UsageError` if it makes no sense."""
        is_start_new = all(one.starts_at != known.starts_at for known in self._same(one))
        check_reservation(one, self._hub.clock(), node_gpus, is_start_new=is_start_new)
        return _check(one, self._all, node_gpus, in_the_way)

    def add(
        self, one: Reservation, node_gpus: int | None, *, force: bool, by_admin: bool = False
    ) -> Reservation:
        """Save a booking under a new id; raise `BookingConflict` unless forced. Blocking."""
        now = self._hub.clock()
        one = replace(one, id=secrets.token_hex(4), created_at=now, changed_at=now)

        def decide(known: Sequence[Reservation]) -> list[Reservation]:
            check_reservation(one, now, node_gpus)
            check_limits(one, known, now, by_admin=by_admin)
            _require_room(one, known, node_gpus, force=force)
            return [one]

        return self._change(decide)

    def edit(
        self, reservation_id: str, change: Change, node_gpus: int | None, *, force: bool
    ) -> Reservation:
        """Change a booking; raise `BookingConflict` unless forced. Blocking."""
        now = self._hub.clock()

        def decide(known: Sequence[Reservation]) -> list[Reservation]:
            before = _by_id(known, reservation_id)
            one = apply_change(before, change, now)
            is_start_new = one.starts_at != before.starts_at
            check_reservation(one, now, node_gpus, is_start_new=is_start_new)
            _require_room(one, known, node_gpus, force=force)
            return [one]

        return self._change(decide)

    def cancel(self, reservation_id: str) -> Reservation:
        """Cancel a booking, or end it if it has begun. Blocking."""
        now = self._hub.clock()
        return self._change(lambda known: [end_reservation(_by_id(known, reservation_id), now)])

    def create_feed(self, owner: str, *, is_account: bool) -> str:
        """Create the secret of a person's calendar, which replaces the one before. Blocking."""
        secret = self._store.create_feed(owner, self._hub.clock(), is_account=is_account)
        self.refresh()
        return secret

    def remove_feed(self, owner: str) -> bool:
        """Revoke the address of a person's calendar; whether there was one. Blocking."""
        existed = self._store.remove_feed(owner)
        self.refresh()
        return existed

    async def run(self) -> None:
        """Follow changes of other processes, and the time, until cancelled."""
        async for _ in ticks(_TICK_SECONDS):
            try:
                await asyncio.to_thread(self.refresh)
                self.show()
                seen = self.look_for_owners()
                if seen:
                    await asyncio.to_thread(self.mark, seen)
            except Exception as error:  # noqa: BLE001  # the hub goes on with what it knows
                self._failures.record_failure(error)
            else:
                self._failures.record_success()

    def show(self) -> None:
        """Show what is booked now on the nodes; on the event loop."""
        now = self._hub.clock()
        shown = self._shown(now)
        signature = [(one, one.is_active(now)) for found in shown.values() for one in found]
        if signature != self._signature:
            self._signature = signature
            self._hub.fleet.views.set_reservations(shown)

    def mark(self, seen: Mapping[str, str]) -> None:
        """Save which bookings are used, and which are released. Blocking."""
        now = self._hub.clock()

        def decide(known: Sequence[Reservation]) -> list[Reservation]:
            due = [one for one in known if one.is_active(now) and one.used_at is None]
            used = [replace(one, used_at=now) for one in due if seen.get(one.id) == "used"]
            released = [
                replace(one, released_at=now, changed_at=now, sequence=one.sequence + 1)
                for one in due
                if seen.get(one.id) == "released"
            ]
            return [*used, *released]

        self._store.change(decide, purge_before=self._purge_before(now))
        self.refresh()

    def _change(self, decide: Callable[[Sequence[Reservation]], list[Reservation]]) -> Reservation:
        (changed,) = self._store.change(decide, purge_before=self._purge_before(self._hub.clock()))
        self.refresh()
        return changed

    def _purge_before(self, now: float) -> float:
        """Return before when bookings that have ended are deleted: never by a clock that jumped.

        One that was set, or that a hub was started with, has to be steady for a day.
        """
        clock, elapsed = self._steady_since
        passed = self._monotonic() - elapsed
        if abs(now - clock - passed) > _STEADY_SECONDS:
            self._steady_since, passed = (now, self._monotonic()), 0.0
        return now - _KEEP_SECONDS if passed >= _STEADY_SECONDS else 0.0

    def _same(self, one: Reservation) -> list[Reservation]:
        return [known for known in self._all if known.id == one.id]

    def _shown(self, now: float) -> _Shown:
        by_node: _Shown = {}
        for one in self._all:
            by_node.setdefault(one.node_id, []).append(one)
        shown = {node_id: shown_bookings(found, now) for node_id, found in by_node.items()}
        return {node_id: found for node_id, found in shown.items() if found}

    def look_for_owners(self) -> dict[str, str]:
        """Return the bookings whose owner is there ("used") or did not come ("released"), by id."""
        now = self._hub.clock()
        due = [one for one in self._all if one.is_active(now) and one.used_at is None]
        elapsed, seen = self._monotonic(), dict[str, str]()
        watched: dict[str, float] = {}
        for one in due:
            parts = self._hub.shown.node_parts(one.node_id, now)
            if parts is None or parts.node.silent:
                continue  # not watched: nobody can tell
            watched[one.id] = self._watched.get(one.id, elapsed)
            if is_used_by(parts, one.owner):
                seen[one.id] = "used"
            elif is_to_be_released(one, now, elapsed - watched[one.id]):
                seen[one.id] = "released"
        self._watched = watched
        return seen


def _require_room(
    one: Reservation, known: Sequence[Reservation], node_gpus: int | None, *, force: bool
) -> None:
    check = _check(one, known, node_gpus)
    if check.conflicts and not force:
        raise BookingConflict(check)


def _check(
    one: Reservation,
    known: Sequence[Reservation],
    node_gpus: int | None,
    in_the_way: tuple[str, ...] = (),
) -> BookingCheck:
    others = [each for each in known if each.node_id == one.node_id and each.id != one.id]
    return check_booking(one.gpus, one.starts_at, one.ends_at, others, node_gpus, in_the_way)


def _by_id(known: Sequence[Reservation], reservation_id: str) -> Reservation:
    for one in known:
        if one.id == reservation_id:
            return one
    raise NotFound(f"no booking has the id {reservation_id}: see `fleet-smi reserve list`")
