"""People who log in with a password, as they are kept."""

import secrets
import time
from collections.abc import Callable
from functools import cached_property
from typing import Literal

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from msgspec import Struct
from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from fleet_smi.errors import UsageError
from fleet_smi.hub.database import (
    bump_credentials_revision,
    read_transaction,
    users,
    write_transaction,
)
from fleet_smi.model.safe_text import sanitize_text

UserRole = Literal["viewer", "admin"]
MIN_PASSWORD_LENGTH = 10
_MOST_PASSWORD = 1024
_MOST_LETTERS = 64


class User(Struct, frozen=True, kw_only=True):
    """What may be told of somebody who can log in."""

    name: str
    role: UserRole
    created_at: float


class UserStore:
    """The people in the database; every call waits for the disk, `verify` for the processor too."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        # As OWASP advises for Argon2id; passwords are long, and attempts are limited.
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 << 10, parallelism=1)

    def list_all(self) -> list[User]:
        """Everybody, by name."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(users).order_by(users.c.name))
            return [User(name=row.name, role=row.role, created_at=row.created_at) for row in rows]

    def roles_and_stamps(self, connection: Connection) -> dict[str, tuple[UserRole, str]]:
        """The role of each, and the stamp that their sessions must carry."""
        rows = connection.execute(select(users.c.name, users.c.role, users.c.session_stamp))
        return {row.name: (row.role, row.session_stamp) for row in rows}

    def add(self, name: str, password: str, role: UserRole = "viewer") -> None:
        """Let somebody in; raise `UsageError` when they are there already."""
        if not name or sanitize_text(name, _MOST_LETTERS) != name:
            raise UsageError(f"a name has 1 to {_MOST_LETTERS} letters")
        row = {"name": name, "role": role, "created_at": self._clock(), **self._proof(password)}
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(users).values(row))
                bump_credentials_revision(connection)
        except IntegrityError:
            raise UsageError(
                f"{name} is there already; to change it: `fleet-smi hub user password {name}`"
            ) from None

    def set_password(self, name: str, password: str) -> None:
        """Change a password; whoever was logged in by the old one no longer is."""
        proof = self._proof(password)
        with write_transaction(self._engine) as connection:
            found = connection.execute(update(users).where(users.c.name == name).values(proof))
            bump_credentials_revision(connection)
        _refuse_unknown(found.rowcount, name)

    def remove(self, name: str) -> None:
        """Let somebody in no longer, from now on."""
        with write_transaction(self._engine) as connection:
            found = connection.execute(delete(users).where(users.c.name == name))
            bump_credentials_revision(connection)
        _refuse_unknown(found.rowcount, name)

    def verify_password(self, name: str, password: str) -> bool:
        """Whether that is the password; takes as long for somebody unknown."""
        nobody = self._nobody
        with read_transaction(self._engine) as connection:
            known = connection.scalar(select(users.c.password_hash).where(users.c.name == name))
        try:
            self._hasher.verify(known or nobody, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return known is not None

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash(secrets.token_urlsafe(32))

    def _proof(self, password: str) -> dict[str, str]:
        if not MIN_PASSWORD_LENGTH <= len(password) <= _MOST_PASSWORD:
            raise UsageError(f"a password has {MIN_PASSWORD_LENGTH} to {_MOST_PASSWORD} characters")
        return {
            "password_hash": self._hasher.hash(_bytes(password)),
            "session_stamp": _new_stamp(),
        }


def revoke_sessions(connection: Connection, name: str) -> None:
    """Sign somebody out everywhere: no session that there is carries their new stamp."""
    stamped = update(users).where(users.c.name == name).values(session_stamp=_new_stamp())
    connection.execute(stamped)
    bump_credentials_revision(connection)


def _new_stamp() -> str:
    return secrets.token_hex(8)


def _refuse_unknown(found: int, name: str) -> None:
    if not found:
        raise UsageError(f"nobody is called {name}; `fleet-smi hub user list` tells who there is")


def _bytes(password: str) -> bytes:
    """What is hashed; nothing, which is never right, for what is too long to be one."""
    return b"" if len(password) > _MOST_PASSWORD else password.encode(errors="surrogatepass")
