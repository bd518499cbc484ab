"""The queue in the database; every call blocks. One record that cannot be read hides no other."""

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, bindparam, delete, insert, select, update

from fleet_smi.errors import Unmet
from fleet_smi.hub.database import queue, read_transaction, write_transaction
from fleet_smi.model.queue.entries import Band, QueueEntry, QueueOffer, QueueRequest
from fleet_smi.model.queue.limits import QueueLimits, refusal

logger = logging.getLogger(__name__)
_TICK_SECONDS = 0.001
Fence = Callable[[Connection], bool]
_SET_STATE = (
    update(queue)
    .where(queue.c.id == bindparam("which"))
    .values(state=bindparam("new_state"), request=bindparam("new_request"))
)
_SET_SEEN = (
    update(queue).where(queue.c.id == bindparam("which")).values(seen_at=bindparam("new_seen_at"))
)


class _State(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changes of a request while it waits."""

    band: Band = "normal"
    offer: QueueOffer | None = None
    taken_at: float | None = None
    lapses: int = 0
    not_before: float = 0.0
    avoid: tuple[tuple[str, float], ...] = ()
    via: str | None = None


class QueueStore:
    """Requests of a queue, by their id."""

    def __init__(self, engine: Engine) -> None:
        self.fence: Fence = lambda _: True
        """Whether this hub may still make offers, in the transaction that writes them."""
        self._engine = engine
        self._unreadable: set[str] = set()

    def read_all(self) -> list[QueueEntry]:
        """Every request, in the order of arrival."""
        with read_transaction(self._engine) as connection:
            return self._read(connection)

    def add(
        self,
        person: str,
        request: QueueRequest,
        now: float,
        limits: QueueLimits,
        via: str | None = None,
    ) -> QueueEntry:
        """Add a request; raise `Unmet` if the person, their node or all have too many already."""
        with write_transaction(self._engine) as connection:
            found = self._read(connection)
            if (reason := refusal(found, person, limits, via)) is not None:
                raise Unmet(reason)
            # Behind all who came before, also after the clock was set back.
            arrived_at = max([now, *[each.arrived_at + _TICK_SECONDS for each in found[-1:]]])
            entry = QueueEntry(
                id=secrets.token_hex(4),
                person=person,
                request=request,
                arrived_at=arrived_at,
                seen_at=now,
                via=via,
            )
            connection.execute(insert(queue).values(_row(entry)))
        return entry

    def update(self, entries: Iterable[QueueEntry], *, fenced: bool = False) -> bool:
        """Save requests that have changed; `False` if another hub makes the offers now."""
        rows = [
            {"which": each.id, "new_state": _encode_state(each), "new_request": _encode(each)}
            for each in entries
        ]
        with write_transaction(self._engine) as connection:
            if fenced and not self.fence(connection):
                return False
            if rows:
                connection.execute(_SET_STATE, rows)
        return True

    def remove(self, ids: Iterable[str]) -> None:
        """Remove requests; those that are gone already are no error."""
        with write_transaction(self._engine) as connection:
            for each in ids:
                connection.execute(delete(queue).where(queue.c.id == each))

    def mark_seen(self, seen: Mapping[str, float]) -> None:
        """Save when the askers of requests were last heard of."""
        rows = [{"which": each, "new_seen_at": at} for each, at in seen.items()]
        if rows:
            with write_transaction(self._engine) as connection:
                connection.execute(_SET_SEEN, rows)

    def _read(self, connection: Connection) -> list[QueueEntry]:
        rows = connection.execute(select(queue).order_by(queue.c.arrived_at, queue.c.id)).all()
        found = []
        for row in rows:
            try:
                request = msgspec.json.decode(row.request, type=QueueRequest)
                state = msgspec.json.decode(row.state, type=_State)
            except Exception as error:  # noqa: BLE001  # whatever is wrong with one record
                if row.id not in self._unreadable:
                    self._unreadable.add(row.id)
                    logger.warning("queue: request %s cannot be read: %s", row.id, error)
                continue
            found.append(
                QueueEntry(
                    id=row.id,
                    person=row.person,
                    request=request,
                    arrived_at=row.arrived_at,
                    seen_at=row.seen_at,
                    band=state.band,
                    offer=state.offer,
                    taken_at=state.taken_at,
                    lapses=state.lapses,
                    not_before=state.not_before,
                    avoid=state.avoid,
                    via=state.via,
                )
            )
        return found


def _row(entry: QueueEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "person": entry.person,
        "arrived_at": entry.arrived_at,
        "seen_at": entry.seen_at,
        "request": _encode(entry),
        "state": _encode_state(entry),
    }


def _encode(entry: QueueEntry) -> str:
    return msgspec.json.encode(entry.request).decode()


def _encode_state(entry: QueueEntry) -> str:
    state = _State(
        band=entry.band,
        offer=entry.offer,
        taken_at=entry.taken_at,
        lapses=entry.lapses,
        not_before=entry.not_before,
        avoid=entry.avoid,
        via=entry.via,
    )
    return msgspec.json.encode(state).decode()
