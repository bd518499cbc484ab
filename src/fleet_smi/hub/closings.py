"""Closings in the hub's database: nodes, GPUs and labels that take no new work."""

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import Engine, delete, insert, select

from fleet_smi.hub.database import closings, read_transaction, write_transaction
from fleet_smi.model.closing import Closing
from fleet_smi.model.safe_text import sanitize_text

logger = logging.getLogger(__name__)
MAX_NOTE_LENGTH = 200
_MAX_CLOSINGS = 10_000


class ClosingStore:
    """The closings of one hub, or of the hubs of a cluster; every method but `current` blocks.

    `current` is what was read last: `refresh`, called every second, reads what other hubs have
    changed and drops what is over.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        self.current: tuple[Closing, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the closings, and remove those that are over; raise `StateError`."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(closings).order_by(closings.c.created_at))
            found = [_closing(row._mapping) for row in rows]
        now = self._clock()
        over = [closing.id for closing in found if closing.is_over(now)]
        if over:
            self._delete(over)
        self.current = tuple([closing for closing in found if closing.id not in over])

    def close(self, closing: Closing) -> Closing:
        """Save a closing, with a new id, in place of the one that its target has."""
        note, by = sanitize_text(closing.note, MAX_NOTE_LENGTH), sanitize_text(closing.by, 128)
        row = {**asdict(closing), "id": secrets.token_hex(4), "note": note, "closed_by": by}
        del row["by"]
        replaced = [each.id for each in self.current if each.target == closing.target]
        with write_transaction(self._engine) as connection:
            connection.execute(delete(closings).where(closings.c.id.in_(replaced)))
            connection.execute(insert(closings).values(row))
        self.refresh()
        return _closing(row)

    def open(self, closing_id: str) -> bool:
        """Remove a closing; return whether there was one."""
        existed = self._delete([closing_id]) > 0
        self.refresh()
        return existed

    @property
    def is_full(self) -> bool:
        """Whether there are too many to add another."""
        return len(self.current) >= _MAX_CLOSINGS

    def _delete(self, ids: list[str]) -> int:
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(closings).where(closings.c.id.in_(ids))).rowcount


def _closing(row: Any) -> Closing:
    fields = dict(row)
    return Closing(by=fields.pop("closed_by"), **fields)
