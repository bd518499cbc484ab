"""Who somebody is: every token and session that is good now, in memory, for the asking.

The database is written by other processes too (`fleet-smi hub token …`): `refresh`, called
every second or so, sees that and reads it again. Nothing here is looked up on the disk while
a request waits, but for what says so.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hmac import compare_digest
from typing import Literal

from msgspec import Struct
from sqlalchemy import Engine

from fleet_smi.errors import Refused, StateError
from fleet_smi.hub.database import read_fact, read_transaction
from fleet_smi.hub.sessions import SessionStore
from fleet_smi.hub.tokens import IssuedToken, Token, TokenStore, token_digest
from fleet_smi.hub.users import UserRole, UserStore
from fleet_smi.model.safe_text import sanitize_text

logger = logging.getLogger(__name__)
Role = Literal["node", "viewer", "admin"]
_MOST_NODES = 20_000
_MARK_SECONDS = 600.0


class Identity(Struct, frozen=True, kw_only=True, gc=False):
    """Who is asking, and how that is known; a node is `node_id` and no other."""

    role: Role
    name: str
    auth_method: Literal["token", "session", "proxy", "open"] = "token"
    node_id: str | None = None
    token_id: str | None = None


class _Entry(Struct, frozen=True, gc=False):
    digest: bytes
    identity: Identity
    expires_at: float | None


class CredentialCache:
    """The tokens and people of one hub."""

    def __init__(
        self,
        engine: Engine,
        *,
        local_admin_token: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.consecutive_failures = 0
        """How many times in a row the database could not be read."""
        self.tokens = TokenStore(engine, clock)
        self.users = UserStore(engine, clock)
        self._sessions = SessionStore(engine, clock)
        self._engine = engine
        self._clock = clock
        self._local = {} if local_admin_token is None else _local_entry(local_admin_token)
        self._lock = threading.Lock()
        # Each password costs 19 MiB and a good part of a tenth of a second: one at a time.
        self._checking = ThreadPoolExecutor(1, "password")
        self._entries: dict[bytes, _Entry] = {}
        self._nodes: frozenset[str] = frozenset()
        self._people: dict[str, tuple[UserRole, str]] = {}
        self._used: set[str] = set()
        self._never_used: set[str] = set()
        self._marked_at = clock()
        self._revision: str | None = None
        self._read()

    @property
    def has_viewer_credentials(self) -> bool:
        """Whether anybody but the machine's own admin can look: a token or a person."""
        tokens = (entry.identity for entry in self._entries.values())
        return bool(self._people) or any(
            who.role != "node" and who.token_id is not None for who in tokens
        )

    def has_node_credential(self, node_id: str) -> bool:
        """Whether this node has a credential of its own."""
        return node_id in self._nodes

    def identify_token(self, token: str) -> Identity | None:
        """Whose token this is; `None` when it is not known, expired or revoked."""
        digest = token_digest(token)
        entry = self._entries.get(digest)
        if entry is None or not compare_digest(entry.digest, digest):
            return None
        if entry.expires_at is not None and self._clock() >= entry.expires_at:
            return None
        if entry.identity.token_id is not None:
            self._used.add(entry.identity.token_id)
        return entry.identity

    def identify_session(self, cookie: str) -> Identity | None:
        """Whose session this is; `None` when it is not ours, over, or ended by a new password."""
        session = self._sessions.verify(cookie)
        if session is None:
            return None
        role, right = self._people.get(session.name, ("viewer", ""))
        if not compare_digest(session.stamp, right):
            return None
        return Identity(role=role, name=session.name, auth_method="session")

    async def login(self, name: str, password: str) -> str | None:
        """A new session for the right name and password, as a cookie's value."""
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(
            self._checking, self.users.verify_password, name, password
        ):
            return None
        await loop.run_in_executor(self._checking, self.refresh)
        if name not in self._people:
            return None  # removed just now
        return self._sessions.create(name, self._people[name][1])

    async def logout(self, cookie: str) -> None:
        """End the session of this cookie, wherever the cookie was copied to."""
        session = self._sessions.verify(cookie)
        if session is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._checking, self._sessions.revoke, session)
            await loop.run_in_executor(self._checking, self.refresh)

    def redeem_join_token(self, join_token: str, node_id: str, name: str) -> IssuedToken:
        """A node's own credential for a join token; raise `Refused`. Waits for the disk."""
        name = sanitize_text(name, 128) or node_id
        if len(self._nodes) >= _MOST_NODES:
            raise Refused(f"this hub has {_MOST_NODES} nodes already", name)
        with self._lock:
            self._mark()
            issued = self.tokens.redeem_join_token(join_token, node_id, name)
            who = Identity(role="node", name=name, node_id=node_id, token_id=issued.id)
            digest = token_digest(issued.secret)
            self._entries[digest] = _Entry(digest, who, None)
            self._never_used.add(issued.id)
            self._nodes |= {node_id}
        return issued

    def issue_token(
        self,
        role: Literal["viewer", "admin", "join"],
        note: str = "",
        *,
        lifetime_seconds: float | None = None,
        max_uses: int | None = None,
    ) -> IssuedToken:
        """Make a token that is good at once. Waits for the disk."""
        issued = self.tokens.add(role, note, lifetime_seconds=lifetime_seconds, max_uses=max_uses)
        self._read()
        return issued

    def revoke_token(self, token_or_node_id: str) -> bool:
        """End a token by its id, or a node's by the node's; whether there was one. Waits."""
        ended = self.tokens.revoke(token_or_node_id)
        self._read()
        return ended

    def refresh(self) -> None:
        """Take in what other processes have changed, note what was used. Waits for the disk.

        While the database cannot be read, what was known before goes on being true.
        """
        try:
            self._read()
        except StateError as error:
            self.consecutive_failures += 1
            if self.consecutive_failures == 1:
                logger.warning("tokens and users cannot be read; those known stay: %s", error)
        else:
            self.consecutive_failures = 0

    def close(self) -> None:
        """Note what was used, and end the thread."""
        self._checking.shutdown()
        with self._lock:
            self._mark()

    def _read(self) -> None:
        with self._lock:
            due = self._clock() >= self._marked_at + _MARK_SECONDS
            if due or self._used & self._never_used:
                self._mark()
            with read_transaction(self._engine) as connection:
                revision = read_fact(connection, "credentials_revision")
                if revision == self._revision:
                    return
                self._people = self.users.roles_and_stamps(connection)
                self._take_tokens(self.tokens.active_by_digest(connection))
                self._revision = revision

    def _take_tokens(self, known: Mapping[bytes, Token]) -> None:
        self._never_used = {token.id for token in known.values() if token.used_at is None}
        self._nodes = frozenset(token.node_id for token in known.values() if token.node_id)
        entries = [_entry(digest, token) for digest, token in known.items()]
        self._entries = {entry.digest: entry for entry in entries if entry} | self._local

    def _mark(self) -> None:
        used, self._used = self._used, set()
        self._marked_at = self._clock()
        self._never_used -= used
        # When a token was last used is told to people; a full disk must not stop the rest for it.
        with suppress(StateError):
            self.tokens.mark_used(list(used))  # at once: it may still be added to


def _entry(digest: bytes, token: Token) -> _Entry | None:
    if token.role == "join":
        return None  # it is traded for a credential, and is none
    who = Identity(
        role=token.role,
        name=token.note or token.id,
        node_id=token.node_id,
        token_id=token.id,
    )
    return _Entry(digest, who, token.expires_at)


def _local_entry(token: str) -> dict[bytes, _Entry]:
    digest = token_digest(token)
    return {digest: _Entry(digest, Identity(role="admin", name="this machine"), None)}
