"""Access tokens in the database: create, revoke, and exchange a join token for a node's own.

Only the SHA-256 of a token is stored. A token has 256 random bits, so there is nothing to
guess that a slow password hash would protect. It is shown once, when it is created.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import Connection, Engine, Row, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from fleet_smi.errors import AlreadyJoined, Refused, UsageError
from fleet_smi.fleet.machines import JOIN_AS_NEW
from fleet_smi.hub.database import (
    bump_credentials_revision,
    read_transaction,
    tokens,
    write_transaction,
)
from fleet_smi.hub.person_names import require_person_name
from fleet_smi.model.accounts import PERSONAL_PREFIX
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.credential_proof import credential_digest

TokenRole = Literal["node", "viewer", "admin", "join"]
JOIN_LIFETIME_SECONDS = 86400.0
JOIN_MAX_USES = 100
"""Limits of a join token for which none are given: it is pasted, and pasted text gets around."""
_MAX_TEXT_LENGTH = 128
_SECRET_CHARACTERS = "[A-Za-z0-9_-]{32,256}"  # noqa: S105
_MAX_PER_PERSON = 50
_MARK_USED = update(tokens).where(tokens.c.id == bindparam("used")).values(used_at=bindparam("at"))


class Token(Struct, frozen=True, kw_only=True):
    """The public data of a token, without its secret."""

    id: str
    role: TokenRole
    note: str
    node_id: str | None
    created_at: float
    used_at: float | None
    expires_at: float | None
    uses_left: int | None
    revoked_at: float | None
    person: str | None = None
    """Whose personal token it is; `None` for one that several may share."""

    def invalid_reason(self, now: float) -> str | None:
        """Why the token is invalid, `None` if it is valid."""
        if self.revoked_at is not None:
            return "was revoked"
        if self.expires_at is not None and now >= self.expires_at:
            return "has expired"
        return "is used up" if self.uses_left == 0 else None


class IssuedToken(Struct, frozen=True):
    """A new token, shown this once."""

    id: str
    secret: str


class TokenStore:
    """The tokens in the database; every call blocks for the disk."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock

    def list_all(self) -> list[Token]:
        """Every token ever created, the oldest first."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(tokens).order_by(tokens.c.created_at, tokens.c.id))
            return [_token(row) for row in rows]

    def active_by_digest(self, connection: Connection) -> dict[bytes, Token]:
        """The tokens that are not revoked, by their digest."""
        rows = connection.execute(select(tokens).where(tokens.c.revoked_at.is_(None)))
        return {row.digest: _token(row) for row in rows}

    def revoked_nodes_by_digest(self, connection: Connection) -> dict[bytes, Token]:
        """The revoked credentials of nodes, by their digest."""
        revoked = tokens.c.revoked_at.is_not(None) & (tokens.c.role == "node")
        rows = connection.execute(select(tokens).where(revoked))
        return {row.digest: _token(row) for row in rows}

    def add(
        self,
        role: Literal["viewer", "admin", "join"],
        note: str = "",
        *,
        lifetime_seconds: float | None = None,
        max_uses: int | None = None,
        person: str | None = None,
        secret: str | None = None,
    ) -> IssuedToken:
        """Create a token; raise `UsageError` for `max_uses` of any but a join token.

        A join token has a lifetime and a number of uses, also if none are given. Requests with a
        token of a `person` are theirs. A `secret` was made elsewhere, and no token has it yet.
        """
        if person is not None:
            if secret is not None:
                raise UsageError("the secret of a personal token is made by the hub")
            return self._add_personal(role, note, person, lifetime_seconds)
        prefix = f"fsmi_{role}_"  # by which tokens are found in what people paste, and hidden
        if secret is not None and not re.fullmatch(prefix + _SECRET_CHARACTERS, secret):
            raise UsageError(
                f"the secret must be {prefix} and at least 32 random letters and digits: "
                f"make one with `echo {prefix}$(openssl rand -hex 32)`"
            )
        if max_uses is not None and (role != "join" or max_uses < 1):
            raise UsageError("only a join token can have a number of uses, at least 1")
        if role == "join":
            max_uses = max_uses or JOIN_MAX_USES
            lifetime_seconds = lifetime_seconds or JOIN_LIFETIME_SECONDS
        with write_transaction(self._engine) as connection:
            return self._add(
                connection,
                role,
                note,
                secret=secret,
                lifetime_seconds=lifetime_seconds,
                uses_left=max_uses,
            )

    def find(self, secret: str) -> Token | None:
        """The token with this secret, whether it is valid or not."""
        same = select(tokens).where(tokens.c.digest == credential_digest(secret))
        with read_transaction(self._engine) as connection:
            row = connection.execute(same).first()
        return None if row is None else _token(row)

    def _add_personal(
        self, role: TokenRole, note: str, person: str, lifetime_seconds: float | None
    ) -> IssuedToken:
        require_person_name(person)
        if role not in ("viewer", "admin"):
            raise UsageError("a personal token has the role viewer or admin")
        with write_transaction(self._engine) as connection:
            live = select(tokens).where(tokens.c.person == person, tokens.c.revoked_at.is_(None))
            valid = [row for row in connection.execute(live) if not self._invalid_reason(row)]
            if len(valid) >= _MAX_PER_PERSON:
                raise UsageError(
                    f"{person} has {len(valid)} tokens already: revoke those that are not in use"
                )
            return self._add(
                connection,
                role,
                note,
                secret=PERSONAL_PREFIX + secrets.token_urlsafe(32),
                lifetime_seconds=lifetime_seconds,
                person=person,
            )

    def _invalid_reason(self, row: Row[Any]) -> str | None:
        return _token(row).invalid_reason(self._clock())

    def revoke(self, token_or_node_id: str) -> bool:
        """Revoke the token of this id, or the credential of this node; whether there was one."""
        matches = (tokens.c.id == token_or_node_id) | (tokens.c.node_id == token_or_node_id)
        with write_transaction(self._engine) as connection:
            valid = update(tokens).where(matches, tokens.c.revoked_at.is_(None))
            revoked = connection.execute(valid.values(revoked_at=self._clock())).rowcount
            bump_credentials_revision(connection)
        return revoked > 0

    def redeem_join_token(
        self, join_token: str, node_id: str, name: str, proposal: str | None = None
    ) -> IssuedToken:
        """Exchange a join token for the credential of a node; raise `Refused`.

        An existing credential is never replaced: a join token must not let its holder take over
        a node. A node that missed the response sends the secret that it had proposed again, and
        has its credential then.
        """
        if not node_id or sanitize_text(node_id, _MAX_TEXT_LENGTH) != node_id:
            raise Refused("invalid node id")
        try:
            # One transaction: if the node has a credential, the insert violates the index and
            # the join token is not spent.
            with write_transaction(self._engine) as connection:
                if proposal is not None and (known := _find_id(connection, node_id, proposal)):
                    return IssuedToken(known, proposal)
                self._spend(connection, join_token)
                return self._add(connection, "node", name, secret=proposal, node_id=node_id)
        except IntegrityError:
            # Another hub may have given it this very credential at the same moment.
            with read_transaction(self._engine) as connection:
                if proposal is not None and (known := _find_id(connection, node_id, proposal)):
                    return IssuedToken(known, proposal)
            raise AlreadyJoined(
                "this node id already has a credential; if this machine is a clone of that node, "
                f"run on it {JOIN_AS_NEW}; if it is that node, and has lost its credential, run "
                f"`fleet-smi hub token revoke {node_id}` on the hub's machine and join again",
                sanitize_text(name, _MAX_TEXT_LENGTH) or node_id,
            ) from None

    def mark_used(self, ids: Iterable[str]) -> None:
        """Record that these tokens were used until now."""
        rows = [{"used": token_id, "at": self._clock()} for token_id in ids]
        if rows:
            with write_transaction(self._engine) as connection:
                connection.execute(_MARK_USED, rows)

    def _spend(self, connection: Connection, secret: str) -> None:
        digest = credential_digest(secret)
        # Locked where several hubs share the database: none may spend its last use twice.
        same = select(tokens).where(tokens.c.digest == digest).with_for_update()
        row = connection.execute(same).first()
        if row is None or row.role != "join" or not compare_digest(row.digest, digest):
            reason: str | None = "is unknown"
        else:
            reason = _token(row).invalid_reason(self._clock())
        if row is None or reason is not None:
            raise Refused(
                f"the join token {reason}: get a new one with `fleet-smi hub join-command`"
            )
        left = None if row.uses_left is None else row.uses_left - 1
        spent = update(tokens).where(tokens.c.id == row.id)
        connection.execute(spent.values(used_at=self._clock(), uses_left=left))

    def _add(
        self,
        connection: Connection,
        role: TokenRole,
        note: str,
        *,
        secret: str | None = None,
        lifetime_seconds: float | None = None,
        **columns: Any,
    ) -> IssuedToken:
        now = self._clock()
        secret = secret or f"fsmi_{role}_{secrets.token_urlsafe(32)}"
        issued = IssuedToken(secrets.token_hex(4), secret)
        connection.execute(
            insert(tokens).values(
                id=issued.id,
                digest=credential_digest(issued.secret),
                role=role,
                note=sanitize_text(note, _MAX_TEXT_LENGTH),
                created_at=now,
                expires_at=None if lifetime_seconds is None else now + lifetime_seconds,
                **columns,
            )
        )
        bump_credentials_revision(connection)
        return issued


def _find_id(connection: Connection, node_id: str, secret: str) -> str | None:
    """The id of the node's valid credential, if this secret is it."""
    row = connection.execute(
        select(tokens).where(tokens.c.node_id == node_id, tokens.c.revoked_at.is_(None))
    ).first()
    if row is None or not compare_digest(row.digest, credential_digest(secret)):
        return None
    return str(row.id)


def _token(row: Row[Any]) -> Token:
    return Token(**{name: getattr(row, name) for name in Token.__struct_fields__})
