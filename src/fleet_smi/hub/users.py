"""Users with a password in the database: Argon2 hashes and the stamps that sessions carry."""

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
    tokens,
    users,
    write_transaction,
)
from fleet_smi.hub.person_names import require_person_name

UserRole = Literal["viewer", "admin"]
MIN_PASSWORD_LENGTH = 10
_MAX_PASSWORD_LENGTH = 1024


class User(Struct, frozen=True, kw_only=True):
    """The public data of a user, without the password hash."""

    name: str
    role: UserRole
    created_at: float


class UserStore:
    """The users in the database; every call blocks for the disk, some for a slow hash too."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        # The parameters that OWASP advises for Argon2id.
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 << 10, parallelism=1)

    def list_all(self) -> list[User]:
        """Every user, by name."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(users).order_by(users.c.name))
            return [User(name=row.name, role=row.role, created_at=row.created_at) for row in rows]

    def roles_and_stamps(self, connection: Connection) -> dict[str, tuple[UserRole, str]]:
        """The role of each user, and the stamp that valid sessions carry."""
        rows = connection.execute(select(users.c.name, users.c.role, users.c.session_stamp))
        return {row.name: (row.role, row.session_stamp) for row in rows}

    def add(self, name: str, password: str, role: UserRole = "viewer") -> None:
        """Add a user; raise `UsageError` for a taken name, or an invalid name or password."""
        require_person_name(name)
        row = {"name": name, "role": role, "created_at": self._clock(), **self._hashed(password)}
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(users).values(row))
                bump_credentials_revision(connection)
        except IntegrityError:
            raise UsageError(
                f"the user {name} exists: run `fleet-smi hub user password {name}` to change it"
            ) from None

    def set_password(self, name: str, password: str) -> None:
        """Change a password; sessions and tokens made with the old one are no longer valid.

        Raise `UsageError` for an unknown user or an invalid password.
        """
        hashed = self._hashed(password)
        with write_transaction(self._engine) as connection:
            result = connection.execute(update(users).where(users.c.name == name).values(hashed))
            if result.rowcount:
                # Whoever knew the old password may have exchanged it for a token.
                self._revoke_tokens(connection, name)
            bump_credentials_revision(connection)
        _require_existing(result.rowcount, name)

    def set_role(self, name: str, role: UserRole) -> None:
        """Change a role, also of open sessions; raise `UsageError` for an unknown user."""
        with write_transaction(self._engine) as connection:
            result = connection.execute(update(users).where(users.c.name == name).values(role=role))
            bump_credentials_revision(connection)
        _require_existing(result.rowcount, name)

    def remove(self, name: str) -> None:
        """Remove a user, end their sessions and revoke their personal tokens.

        Raise `UsageError` if the name is unknown.
        """
        with write_transaction(self._engine) as connection:
            result = connection.execute(delete(users).where(users.c.name == name))
            if result.rowcount:
                self._revoke_tokens(connection, name)
            bump_credentials_revision(connection)
        _require_existing(result.rowcount, name)

    def _revoke_tokens(self, connection: Connection, person: str) -> None:
        own = update(tokens).where(tokens.c.person == person, tokens.c.revoked_at.is_(None))
        connection.execute(own.values(revoked_at=self._clock()))

    def verify_password(self, name: str, password: str) -> bool:
        """Whether the password is right."""
        # An unknown name is checked against a dummy hash, so that the time taken does not
        # reveal which names exist. It is made first, for every name: making it takes time, too.
        dummy = self._dummy_hash
        with read_transaction(self._engine) as connection:
            stored = connection.scalar(select(users.c.password_hash).where(users.c.name == name))
        try:
            self._hasher.verify(stored or dummy, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    @cached_property
    def _dummy_hash(self) -> str:
        return self._hasher.hash(secrets.token_urlsafe(32))

    def _hashed(self, password: str) -> dict[str, str]:
        if not MIN_PASSWORD_LENGTH <= len(password) <= _MAX_PASSWORD_LENGTH:
            raise UsageError(
                f"a password must have {MIN_PASSWORD_LENGTH} to {_MAX_PASSWORD_LENGTH} characters"
            )
        return {
            "password_hash": self._hasher.hash(_bytes(password)),
            "session_stamp": _new_stamp(),
        }


def revoke_sessions(connection: Connection, name: str) -> None:
    """Log a user out everywhere: existing sessions do not carry the new stamp."""
    restamp = update(users).where(users.c.name == name).values(session_stamp=_new_stamp())
    connection.execute(restamp)
    bump_credentials_revision(connection)


def _new_stamp() -> str:
    return secrets.token_hex(8)


def _require_existing(rows: int, name: str) -> None:
    if not rows:
        raise UsageError(f"there is no user {name}: `fleet-smi hub user list` lists them")


def _bytes(password: str) -> bytes:
    """The bytes to hash; empty, which never matches, if it is too long for a password."""
    return b"" if len(password) > _MAX_PASSWORD_LENGTH else password.encode(errors="surrogatepass")
