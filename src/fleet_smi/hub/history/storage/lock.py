"""One hub writes to a history at a time: another is told so, until the first is gone."""

import fcntl
import os
from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from fleet_smi.errors import StateError
from fleet_smi.hub.state_folder import chown_to_folder_owner

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FLEET_SMI = 0x666C6565  # what else has locks in the same database has other numbers
_LOCK = f"SELECT pg_try_advisory_lock({_FLEET_SMI}, current_schema()::regnamespace::oid::int)"
# A server must not wait for hours for a hub whose machine is gone.
_NOTICE_DEATH = (
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
)


class DatabaseLocked(StateError):
    """Another hub writes there."""


def lock_file(path: Path) -> int:
    """A descriptor that is the only one of its kind while it is open; raise `Occupied`."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, _OPEN, 0o600)
        chown_to_folder_owner(lock)
    except OSError as error:
        raise StateError(f"{lock} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise _refusal(str(path)) from None
    return descriptor


def require_advisory_lock(engine: Engine, name: str) -> None:
    """Let each connection to the server be the only one of its kind, or raise `Occupied`."""

    @event.listens_for(engine, "connect")
    def lock(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        for statement in (*_NOTICE_DEATH, _LOCK):
            cursor.execute(statement)
        (held,) = cursor.fetchone() or (None,)
        cursor.close()
        connection.commit()
        if held is False:
            connection.close()
            raise _refusal(name)


def _refusal(name: str) -> DatabaseLocked:
    return DatabaseLocked(f"another hub writes to {name}: give this one a history of its own")
