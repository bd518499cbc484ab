"""Retention time: the time that retention counts from, which does not follow a clock that jumps.

A clock that is wrong by a few months would delete the whole history within a minute.
"""

from sqlalchemy import Connection

from fleet_smi.hub.database import read_fact
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import DAY_SECONDS, upsert_statement

_FACT = "retention_time"
# A jump ahead by more than this has to last for this long.
_MAX_JUMP_SECONDS = float(DAY_SECONDS)
_UPSERT = upsert_statement(schema.facts)


class RetentionTime:
    """The time by which rows expire; stored, so that a restart is no way around it."""

    def __init__(self) -> None:
        self._jumped_at: float | None = None

    def update(self, connection: Connection, now: float, elapsed: float) -> float:
        """Return the time for retention at `now`; `elapsed` passes evenly, whatever the clock does.

        After a jump ahead it stays where it was until the clock has said so for a day: a hub that
        was off for long deletes a day later than it could.
        """
        stored = read_fact(connection, _FACT)
        known = now if stored is None else float(stored)
        if now - known <= _MAX_JUMP_SECONDS:
            self._jumped_at = None
        else:
            if self._jumped_at is None:
                self._jumped_at = elapsed
            if elapsed - self._jumped_at < _MAX_JUMP_SECONDS:
                return known
        connection.execute(_UPSERT, {"name": _FACT, "value": repr(now)})
        return now
