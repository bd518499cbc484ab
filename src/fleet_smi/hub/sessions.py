"""Sessions: who is signed in, as signed cookies, and which of them were ended before their time.

A session that nobody ends costs nothing here: its cookie says all. One that somebody signed
out of is written down until it would have ended by itself, so that a copy of its cookie is
worth nothing, not even after a restart.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from itsdangerous import BadData, URLSafeSerializer
from sqlalchemy import Connection, Engine, delete, func, insert, select

from fleet_smi.errors import StateError
from fleet_smi.hub.database import ended_sessions, read_fact, read_transaction, write_transaction
from fleet_smi.hub.users import revoke_sessions

SESSION_LIFETIME_SECONDS = 14 * 86400.0
_MOST_ENDED = 200


class Session(NamedTuple):
    """What a cookie says that we have signed."""

    id: str
    name: str
    stamp: str
    expires_at: float


class SessionStore:
    """The sessions of one hub."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        with read_transaction(engine) as connection:
            self._signer = _signer(connection, str(engine.url.database))
            self._ended = _ended(connection)

    def create(self, name: str, stamp: str) -> str:
        """A new session, as a cookie's value."""
        until = self._clock() + SESSION_LIFETIME_SECONDS
        return str(self._signer.dumps(Session(secrets.token_hex(16), name, stamp, until)))

    def verify(self, cookie: str) -> Session | None:
        """The session of this cookie; `None` when it is not ours, over, or was ended."""
        try:
            session = Session(*self._signer.loads(cookie))
        except (BadData, ValueError, TypeError):
            return None
        over = self._clock() >= session.expires_at or session.id in self._ended
        return None if over else session

    def revoke(self, session: Session) -> None:
        """End it for whoever has its cookie. Waits for the disk.

        Who signs out more often than can be written down is signed out everywhere.
        """
        table = ended_sessions
        with write_transaction(self._engine) as connection:
            connection.execute(delete(table).where(table.c.expires_at <= self._clock()))
            if session.id not in _ended(connection):
                row = {"id": session.id, "name": session.name, "expires_at": session.expires_at}
                connection.execute(insert(table).values(row))
            theirs = table.c.name == session.name
            if (connection.scalar(select(func.count()).where(theirs)) or 0) > _MOST_ENDED:
                revoke_sessions(connection, session.name)
                connection.execute(delete(table).where(theirs))
            self._ended = _ended(connection)


def _ended(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(ended_sessions.c.id)))


def _signer(connection: Connection, database: str) -> URLSafeSerializer:
    secret = read_fact(connection, "session_secret")
    if not secret:
        raise StateError(f"{database} has no secret to sign with: put back a good copy")
    return URLSafeSerializer(secret, "session", signer_kwargs={"digest_method": sha256})
