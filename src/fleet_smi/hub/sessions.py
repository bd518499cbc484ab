"""Login sessions as signed cookies, and the list of those that were revoked by logging out.

An open session takes no storage: its cookie says all. A revoked one is stored until it would
have expired, so that a copy of its cookie is worthless, even after a restart of the hub.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from itsdangerous import BadData, URLSafeSerializer
from sqlalchemy import Connection, Engine, delete, func, insert, select

from fleet_smi.errors import StateError
from fleet_smi.hub.database import (
    bump_credentials_revision,
    ended_sessions,
    read_fact,
    read_transaction,
    write_transaction,
)
from fleet_smi.hub.users import revoke_sessions

SESSION_LIFETIME_SECONDS = 14 * 86400.0
_MAX_REVOKED_PER_USER = 200


class Session(NamedTuple):
    """The content of a cookie that this hub has signed."""

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
            self._revoked = _read_revoked(connection)

    def create(self, name: str, stamp: str) -> str:
        """Create a session; return the value of its cookie."""
        expires_at = self._clock() + SESSION_LIFETIME_SECONDS
        return str(self._signer.dumps(Session(secrets.token_hex(16), name, stamp, expires_at)))

    def verify(self, cookie: str) -> Session | None:
        """The session of this cookie; `None` if it is forged, expired or revoked."""
        try:
            session = Session(*self._signer.loads(cookie))
        except (BadData, ValueError, TypeError):
            return None
        is_over = self._clock() >= session.expires_at or session.id in self._revoked
        return None if is_over else session

    def revoke(self, session: Session) -> None:
        """Revoke a session for every copy of its cookie. Blocking.

        A user with too many revoked sessions is logged out everywhere instead: the list must
        not grow without limit.
        """
        table = ended_sessions
        with write_transaction(self._engine) as connection:
            connection.execute(delete(table).where(table.c.expires_at <= self._clock()))
            # A second logout with the same cookie must not violate the primary key.
            if session.id not in _read_revoked(connection):
                row = {"id": session.id, "name": session.name, "expires_at": session.expires_at}
                connection.execute(insert(table).values(row))
            of_user = table.c.name == session.name
            count = connection.scalar(select(func.count()).where(of_user)) or 0
            if count > _MAX_REVOKED_PER_USER:
                # From here on they are invalid by their stamp, and need no rows.
                revoke_sessions(connection, session.name)
                connection.execute(delete(table).where(of_user))
            self._revoked = _read_revoked(connection)
            # Other hubs of a cluster read the list again.
            bump_credentials_revision(connection)

    def reload(self, connection: Connection) -> None:
        """Read the revoked sessions again: another hub may have revoked some."""
        self._revoked = _read_revoked(connection)


def _read_revoked(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(ended_sessions.c.id)))


def _signer(connection: Connection, database: str) -> URLSafeSerializer:
    secret = read_fact(connection, "session_secret")
    if not secret:
        raise StateError(f"{database} has no secret to sign sessions with: restore a good copy")
    # The default of itsdangerous is SHA-1.
    return URLSafeSerializer(secret, "session", signer_kwargs={"digest_method": sha256})
