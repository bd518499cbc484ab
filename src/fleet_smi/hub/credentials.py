"""Credential cache: every valid token and user in memory, refreshed from the database.

Other processes write the database too (`fleet-smi hub token …`): `refresh`, called every
second, reads it again when it has changed. No method reads the disk while a request waits,
except those that say "blocking".
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hmac import compare_digest
from secrets import token_bytes
from typing import Literal

from msgspec import Struct
from sqlalchemy import Engine

from fleet_smi.errors import StateError
from fleet_smi.fleet.node_limit import MAX_NODES, too_many_nodes
from fleet_smi.hub.database import read_fact, read_transaction
from fleet_smi.hub.sessions import SessionStore
from fleet_smi.hub.tokens import IssuedToken, Token, TokenStore
from fleet_smi.hub.users import UserRole, UserStore
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.paths import user_name
from fleet_smi.wire.credential_proof import credential_digest, credential_proof

logger = logging.getLogger(__name__)
Role = Literal["node", "viewer", "admin"]
# How often the times of last use are written: not with every request.
_MARK_USED_SECONDS = 600.0


class Identity(Struct, frozen=True, kw_only=True, gc=False):
    """An authenticated client and how it was authenticated; a node may act for `node_id` only.

    `person` is who sent the request, where that is known and not only claimed: the account of a
    session or a proxy, the owner of a personal token, the user whom the kernel named to an agent.
    A token that many may share has none.
    """

    role: Role
    name: str
    auth_method: Literal["token", "session", "proxy", "open", "agent"] = "token"
    node_id: str | None = None
    token_id: str | None = None
    expires_at: float | None = None
    person: str | None = None


class _Entry(Struct, frozen=True, gc=False):
    digest: bytes
    identity: Identity


class CredentialCache:
    """The tokens, users and sessions of one hub."""

    def __init__(
        self,
        engine: Engine,
        *,
        local_admin_token: str | None = None,
        max_nodes: int = MAX_NODES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.version = 0
        """Counts the changes of tokens and users: who was identified before may be unknown now."""
        self.consecutive_failures = 0
        """Failed reads of the database in a row."""
        self.last_error: str | None = None
        """Why the last read failed; `None` once it succeeds."""
        self.on_change: Callable[[], None] = lambda: None
        """Is called after a change by this hub, on any thread: other hubs should read it."""
        self.tokens = TokenStore(engine, clock)
        self.users = UserStore(engine, clock)
        self._sessions = SessionStore(engine, clock)
        self._engine = engine
        self._clock = clock
        # A leaked join token must not fill the hub with invented nodes.
        self._max_nodes = max_nodes
        self._local_admin = {} if local_admin_token is None else _local_entry(local_admin_token)
        # For the threads that write. The event loop reads without it: a reload replaces
        # `_entries`, `_node_digests` and `_users` whole.
        self._lock = threading.Lock()
        # Each Argon2 hash takes 19 MiB and most of a tenth of a second: one at a time.
        self._password_thread = ThreadPoolExecutor(1, "password")
        self._entries: dict[bytes, _Entry] = {}
        self._has_viewer_token = False
        self._node_digests: dict[str, bytes] = {}
        self._revoked: dict[bytes, Token] = {}
        self._join_tokens: dict[bytes, Token] = {}
        self._users: dict[str, tuple[UserRole, str]] = {}
        self._used: set[str] = set()
        self._never_used: set[str] = set()
        self._marked_at = clock()
        self._revision: str | None = None
        self._read()

    @property
    def has_viewer_credentials(self) -> bool:
        """Whether there is a user, or a token of a viewer or admin besides the local one."""
        return bool(self._users) or self._has_viewer_token

    def has_node_credential(self, node_id: str) -> bool:
        """Whether this node has a credential of its own."""
        return node_id in self._node_digests

    def has_user(self, name: str) -> bool:
        """Whether this is the name of an account."""
        return name in self._users

    def revoked_node(self, token: str) -> Token | None:
        """The credential of a node that was revoked; `None` for any other token."""
        return self._revoked.get(credential_digest(token))

    def is_join_token(self, token: str) -> bool:
        """Whether a node could join with this token now."""
        known = self._join_tokens.get(credential_digest(token))
        return known is not None and not known.invalid_reason(self._clock())

    def identify_token(self, token: str) -> Identity | None:
        """The identity of a token; `None` if it is unknown, expired or revoked."""
        digest = credential_digest(token)
        entry = self._entries.get(digest)
        if entry is None or not compare_digest(entry.digest, digest):
            return None
        identity = entry.identity
        if identity.expires_at is not None and self._clock() >= identity.expires_at:
            return None
        self.record_use(identity)
        return identity

    def record_use(self, identity: Identity) -> None:
        """Note that the token of an identity was used now."""
        if identity.token_id is not None:
            self._used.add(identity.token_id)

    def record_uses(self, charges: Iterable[tuple[str | None, int]]) -> None:
        """Note that tokens were used now; with each its id comes first."""
        self._used.update([token_id for token_id, _ in charges if token_id is not None])

    def identify_session(self, cookie: str) -> Identity | None:
        """The identity of a session cookie; `None` if it is forged, expired or revoked."""
        session = self._sessions.verify(cookie)
        if session is None:
            return None
        # A new password gives the user a new stamp, which ends every session with the old one.
        # A user who was removed has the stamp "", which no session carries.
        role, stamp = self._users.get(session.name, ("viewer", ""))
        if not compare_digest(session.stamp, stamp):
            return None
        return Identity(role=role, name=session.name, auth_method="session", person=session.name)

    async def login(self, name: str, password: str) -> str | None:
        """Check name and password; return the value of a new session cookie, or `None`."""
        role = await self.check_password(name, password)
        return None if role is None else self._sessions.create(name, self._users[name][1])

    async def check_password(self, name: str, password: str) -> UserRole | None:
        """The role of this user, `None` if the name or the password is wrong."""
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(
            self._password_thread, self.users.verify_password, name, password
        ):
            return None
        # The cached stamp may be older than the password that was just checked: a session with
        # it would end at the next refresh.
        await loop.run_in_executor(self._password_thread, self.refresh)
        # Else the user was removed meanwhile.
        return self._users[name][0] if name in self._users else None

    async def logout(self, cookie: str) -> None:
        """Revoke the session of this cookie, for every copy of the cookie."""
        session = self._sessions.verify(cookie)
        if session is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._password_thread, self._sessions.revoke, session)
            # It may have given the user a new stamp.
            await loop.run_in_executor(self._password_thread, self.refresh)
            self.on_change()

    def redeem_join_token(
        self, join_token: str, node_id: str, name: str, proposal: str | None = None
    ) -> IssuedToken:
        """Exchange a join token for the credential of a node; raise `Refused`. Blocking."""
        name = sanitize_text(name, 128) or node_id
        if len(self._node_digests) >= self._max_nodes:
            raise too_many_nodes(self._max_nodes, name)
        with self._lock:
            issued = self.tokens.redeem_join_token(join_token, node_id, name, proposal)
            identity = Identity(role="node", name=name, node_id=node_id, token_id=issued.id)
            digest = credential_digest(issued.secret)
            # Not at the next refresh: the node sends its first report right after this response.
            self._entries[digest] = _Entry(digest, identity)
            self._never_used.add(issued.id)
            self._node_digests = {**self._node_digests, node_id: digest}
            self.version += 1
        self.on_change()
        return issued

    def issue_token(
        self,
        role: Literal["viewer", "admin", "join"],
        note: str = "",
        *,
        lifetime_seconds: float | None = None,
        max_uses: int | None = None,
        person: str | None = None,
    ) -> IssuedToken:
        """Create a token that is valid immediately. Blocking."""
        issued = self.tokens.add(
            role, note, lifetime_seconds=lifetime_seconds, max_uses=max_uses, person=person
        )
        self._read()
        self.on_change()
        return issued

    def change_users(self, change: Callable[[UserStore], None]) -> None:
        """Change the users; valid immediately, here and at other hubs. Blocking."""
        change(self.users)
        self._read()
        self.on_change()

    def prove_node_credential(self, node_id: str, challenge: bytes) -> bytes:
        """Prove to a node that this hub knows its credential, without revealing it.

        For a node without one the answer is random: strangers cannot find out which nodes exist.
        """
        digest = self._node_digests.get(node_id) or token_bytes(32)
        return credential_proof(digest, challenge)

    def revoke_token(self, token_or_node_id: str) -> bool:
        """Revoke a token by its id, or that of a node; whether there was one. Blocking."""
        was_valid = self.tokens.revoke(token_or_node_id)
        self._read()
        self.on_change()
        return was_valid

    def refresh(self) -> None:
        """Load what other processes have changed, and save when tokens were used. Blocking.

        While the database cannot be read, the cached credentials stay valid.
        """
        try:
            self._read()
        except StateError as error:
            self.consecutive_failures += 1
            self.last_error = str(error)
            if self.consecutive_failures == 1:
                logger.warning("cannot read tokens and users, using the cached ones: %s", error)
        else:
            self.consecutive_failures = 0
            self.last_error = None

    def close(self) -> None:
        """Save when tokens were used, and end the thread."""
        self._password_thread.shutdown()
        with self._lock:
            self._mark_used()

    def _read(self) -> None:
        with self._lock:
            # The first use is saved promptly: an admin looks whether a new token works.
            due = self._clock() >= self._marked_at + _MARK_USED_SECONDS
            if due or self._used & self._never_used:
                self._mark_used()
            with read_transaction(self._engine) as connection:
                revision = read_fact(connection, "credentials_revision")
                if revision == self._revision:
                    return
                self._users = self.users.roles_and_stamps(connection)
                self._cache_tokens(self.tokens.active_by_digest(connection))
                self._revoked = self.tokens.revoked_nodes_by_digest(connection)
                self._sessions.reload(connection)
                self._revision = revision
                self.version += 1  # the last: who reads it first finds the new ones

    def _cache_tokens(self, tokens: Mapping[bytes, Token]) -> None:
        self._never_used = {token.id for token in tokens.values() if token.used_at is None}
        # Not when it is asked for: strangers ask, and there may be a token of every node.
        self._has_viewer_token = any(token.role in ("viewer", "admin") for token in tokens.values())
        self._node_digests = {
            token.node_id: digest for digest, token in tokens.items() if token.node_id
        }
        self._join_tokens = {
            digest: token for digest, token in tokens.items() if token.role == "join"
        }
        entries = [_entry(digest, token, self._users) for digest, token in tokens.items()]
        self._entries = {entry.digest: entry for entry in entries if entry} | self._local_admin

    def _mark_used(self) -> None:
        used, self._used = self._used, set()
        self._marked_at = self._clock()
        self._never_used -= used
        # The time of last use is only for people to read: a full disk must not stop a login.
        with suppress(StateError):
            self.tokens.mark_used(list(used))  # a copy: the event loop may still add to it


def _entry(digest: bytes, token: Token, users: Mapping[str, tuple[UserRole, str]]) -> _Entry | None:
    if token.role == "join":
        return None  # it is exchanged for a credential, and is none itself
    role = token.role
    if token.person is not None and users.get(token.person, (role, ""))[0] == "viewer":
        role = "viewer"  # an account that is no admin any more has no token of one
    identity = Identity(
        role=role,
        name=token.person or token.note or token.id,
        node_id=token.node_id,
        token_id=token.id,
        expires_at=token.expires_at,
        person=token.person,
    )
    return _Entry(digest, identity)


def _local_entry(token: str) -> dict[bytes, _Entry]:
    digest = credential_digest(token)
    # Who can read this token is the user that the hub runs as.
    person = user_name(os.geteuid())
    return {digest: _Entry(digest, Identity(role="admin", name="this machine", person=person))}
