"""Reservations in the hub's database, each change in one transaction, and secrets of calendars."""

import secrets
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, delete, insert, select, update

from fleet_smi.hub.database import (
    facts,
    read_fact,
    read_transaction,
    set_fact,
    write_transaction,
)
from fleet_smi.hub.reservation_tables import calendar_feeds, reservations
from fleet_smi.model.reservation import Reservation
from fleet_smi.wire.credential_proof import credential_digest

_REVISION = "reservations_revision"
Decide = Callable[[Sequence[Reservation]], Sequence[Reservation]]
"""Returns the reservations to write, given all that are saved; raises to write nothing."""
FeedOwner = tuple[str, bool]
"""Who made the address of a calendar, and whether by an account of this hub."""


class ReservationStore:
    """The reservations in the database; every call blocks for the disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._revision: str | None = None

    def read_changed(
        self,
    ) -> tuple[list[Reservation], dict[bytes, FeedOwner]] | None:
        """All reservations and feeds; `None` if nothing has changed since the last call."""
        with read_transaction(self._engine) as connection:
            revision = read_fact(connection, _REVISION)
            if revision == self._revision:
                return None
            found = _read(connection), _read_feeds(connection)
            self._revision = revision
            return found

    def change(self, decide: Decide, *, purge_before: float) -> list[Reservation]:
        """Write what `decide` returns; what ended before `purge_before` is deleted."""
        with write_transaction(self._engine) as connection:
            # Locked where several hubs share the database: two bookings that do not fit together
            # must not both be found to fit.
            lock = select(facts.c.value).where(facts.c.name == _REVISION).with_for_update()
            connection.execute(lock)
            known = _read(connection)
            saved = {one.id for one in known}
            changed = list(decide(known))
            for one in changed:
                values = {name: getattr(one, name) for name in Reservation.__struct_fields__}
                if one.id in saved:
                    row = update(reservations).where(reservations.c.id == one.id)
                    connection.execute(row.values(values))
                else:
                    connection.execute(insert(reservations).values(values))
            connection.execute(delete(reservations).where(reservations.c.ends_at < purge_before))
            set_fact(connection, _REVISION, secrets.token_hex(8))
            return changed

    def create_feed(self, owner: str, now: float, *, is_account: bool) -> str:
        """Create the secret of a person's calendar; the one before is no longer valid."""
        secret = secrets.token_urlsafe(24)
        with write_transaction(self._engine) as connection:
            connection.execute(delete(calendar_feeds).where(calendar_feeds.c.owner == owner))
            connection.execute(
                insert(calendar_feeds).values(
                    owner=owner,
                    digest=credential_digest(secret),
                    is_account=int(is_account),
                    created_at=now,
                )
            )
            set_fact(connection, _REVISION, secrets.token_hex(8))
        return secret

    def remove_feed(self, owner: str) -> bool:
        """Revoke the address of a person's calendar; whether there was one."""
        with write_transaction(self._engine) as connection:
            removed = delete(calendar_feeds).where(calendar_feeds.c.owner == owner)
            count = connection.execute(removed).rowcount
            set_fact(connection, _REVISION, secrets.token_hex(8))
        return count > 0


def _read(connection: Connection) -> list[Reservation]:
    rows = connection.execute(select(reservations).order_by(reservations.c.starts_at))
    fields = Reservation.__struct_fields__
    return [Reservation(**{name: getattr(row, name) for name in fields}) for row in rows]


def _read_feeds(connection: Connection) -> dict[bytes, FeedOwner]:
    rows = connection.execute(select(calendar_feeds))
    return {row.digest: (row.owner, bool(row.is_account)) for row in rows}
