"""Lock of the history database: only one hub writes to it at a time."""

import fcntl
import os
from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from fleet_smi.errors import StateError

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LOCK_CLASS = 0x666C6565  # distinguishes our advisory locks from those of other programs
_LOCK_ARGUMENTS = f"{_LOCK_CLASS}, current_schema()::regnamespace::oid::int"
_LOCK = f"SELECT pg_try_advisory_lock({_LOCK_ARGUMENTS})"
_LOCK_SHARED = f"SELECT pg_try_advisory_lock_shared({_LOCK_ARGUMENTS})"
# Without keep-alives the server would hold the lock of a hub whose machine is gone for hours.
_SET_KEEPALIVES = (
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
)
# A hub that hangs in the middle of a transaction must not keep the others from writing.
_END_HUNG = "SET idle_in_transaction_session_timeout = '10s'"


class DatabaseLocked(StateError):
    """Another hub holds the lock."""


def lock_file(path: Path) -> int:
    """Lock a database file until the returned descriptor is closed; raise `DatabaseLocked`."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, _OPEN_FLAGS, 0o600)
    except OSError as error:
        raise StateError(f"{lock} cannot be opened: {error.strerror}") from None
    # The kernel releases the lock when the process ends, even if it is killed.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise _locked_error(str(path)) from None
    return descriptor


def require_advisory_lock(engine: Engine, name: str, *, is_shared: bool = False) -> None:
    """Make each new connection of an engine take the lock, or raise `DatabaseLocked`.

    The hubs of a cluster share it, and keep out a hub that is not one of them.
    """
    statements = (
        (*_SET_KEEPALIVES, _END_HUNG, _LOCK_SHARED) if is_shared else (*_SET_KEEPALIVES, _LOCK)
    )

    @event.listens_for(engine, "connect")
    def lock(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        (held,) = cursor.fetchone() or (None,)
        cursor.close()
        connection.commit()  # the lock belongs to the session and outlives the transaction
        if held is False:
            connection.close()
            raise _locked_error(name)


def _locked_error(name: str) -> DatabaseLocked:
    return DatabaseLocked(f"another hub writes to {name}: set another `hub.history` for this one")
