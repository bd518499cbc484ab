"""The credentials of one hub, with one of each kind, and requests that use them."""

import asyncio
from pathlib import Path
from typing import Any

from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.hub.database import open_database
from fleet_smi.server.auth import (
    AccessControl,
)
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.rate_limit import AuthRateLimiter

HERE, PROXY, FAR = "127.0.0.1", "10.0.0.9", "203.0.113.7"
PASSWORD = "correct horse battery"
OWN_PAGE = {"host": "hub:7070", "origin": "http://hub:7070", "content-type": "application/json"}


def head(values: dict[str, str] | None = None, **more: str) -> Headers:
    named = {**(values or {}), **{name.replace("_", "-"): value for name, value in more.items()}}
    return [(name.encode(), value.encode()) for name, value in named.items()]


def with_token(token: str) -> Headers:
    return head(authorization=f"Bearer {token}")


class House:
    """One hub's credentials with one of each kind in them."""

    def __init__(self, state: Path) -> None:
        self._engine = open_database(state)
        self.credentials = CredentialCache(self._engine, local_admin_token="fsmi_local_x")
        add = self.credentials.tokens.add
        self.viewer, self.admin = add("viewer", "bob").secret, add("admin", "eve").secret
        self.node = self.credentials.redeem_join_token(add("join").secret, "id-1", "gpu1").secret
        self.credentials.users.add("alice", PASSWORD, "admin")
        self.credentials.refresh()

    def access(self, **rules: Any) -> AccessControl:
        rules = {"loopback_only": False, **rules}
        return AccessControl(self.credentials, AuthRateLimiter(lambda: 1000.0), **rules)

    def login(self, access: AccessControl, **headers: str) -> HttpError | tuple[bytes, bytes]:
        requested = access.login(head({**OWN_PAGE, **headers}), FAR, "alice", PASSWORD)
        return asyncio.run(requested)

    def session(self) -> str:
        """What a browser sends back once alice has logged in."""
        response = self.login(self.access())
        assert not isinstance(response, HttpError)
        return response[1].decode().partition(";")[0]

    def close(self) -> None:
        self.credentials.close()
        self._engine.dispose()


def code_of(refusal: Identity | HttpError | None) -> str | None:
    return refusal.code if isinstance(refusal, HttpError) else None


def sender(
    access: AccessControl, headers: Headers, peer: str = FAR, method: str = "GET"
) -> Identity:
    who = access.authenticate(headers, peer, method)
    assert isinstance(who, Identity)
    return who
