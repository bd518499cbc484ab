"""Known attacks on similar programs, and the rule that prevents each here.

| what happened elsewhere                          | the rule here                              |
|--------------------------------------------------|--------------------------------------------|
| a server open to the network by default          | loopback, or a token is required           |
| CORS for everybody, or by a fall-back            | no CORS at all                             |
| DNS rebinding                                    | names of the hub alone (also test_guard)   |
| an endpoint that tells password hashes           | nothing that is listed holds a secret      |
| credentials sent to any host that claims a name  | a credential is bound to one node          |
| commands in names that are run                   | shell-quoted (test_tls)                    |
| SQL in names that is run                         | parameters only                            |
| a pickle that runs code                          | no pickle, anywhere                        |
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Engine

from fleet_smi.errors import Refused
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import open_database
from fleet_smi.server.auth import AccessControl
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.middleware import (
    AllowedHosts,
    AsgiApp,
    Message,
    Receive,
    SecurityMiddleware,
    Send,
    send_error,
)
from fleet_smi.server.rate_limit import AuthRateLimiter
from tests.server.loopback import send_raw_request, serve_app

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(tmp_path / "state")
    yield opened
    opened.dispose()


@pytest.fixture
def credentials(engine: Engine) -> Iterator[CredentialCache]:
    opened = CredentialCache(engine)
    yield opened
    opened.close()


def guarded(access: AccessControl) -> AsgiApp:
    """An app that returns a secret to those who may view."""

    async def secret(scope: Message, receive: Receive, send: Send) -> None:
        who = access.authenticate(scope["headers"], scope["client"][0], scope["method"])
        refusal = who if isinstance(who, HttpError) else access.authorize(who, "view")
        if refusal is not None:
            await send_error(refusal, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the secret"})

    return SecurityMiddleware(secret, AllowedHosts("127.0.0.1"), tls=False)


@pytest.fixture
def port(credentials: CredentialCache) -> Iterator[int]:
    access = AccessControl(credentials, AuthRateLimiter(lambda: 1.0), loopback_only=False)
    with serve_app(guarded(access)) as number:
        yield number


def test_a_remote_hub_reveals_nothing_without_a_token(
    port: int, credentials: CredentialCache
) -> None:
    response = send_raw_request(port, "Host: localhost")
    assert response.status == 401
    assert msgspec.json.decode(response.body)["error"]["code"] == "no_viewers"
    token = credentials.tokens.add("viewer").secret
    credentials.refresh()
    response = send_raw_request(port, "Host: localhost", f"Authorization: Bearer {token}")
    assert b"the secret" in response.body


@pytest.mark.parametrize(
    "request_line", ["GET / HTTP/1.1", "OPTIONS / HTTP/1.1", "POST / HTTP/1.1"]
)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost"])
def test_no_response_allows_another_origin_to_read_it(
    port: int, request_line: str, origin: str
) -> None:
    response = send_raw_request(
        port,
        "Host: localhost",
        f"Origin: {origin}",
        "Access-Control-Request-Method: POST",
        "Content-Length: 0",
        request=request_line,
    )
    assert not [name for name in response.headers if name.startswith("access-control-")]
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_dns_rebinding_fails_even_with_a_valid_token(
    port: int, credentials: CredentialCache
) -> None:
    token = credentials.tokens.add("admin").secret
    credentials.refresh()
    response = send_raw_request(port, "Host: evil.example:7070", f"Authorization: Bearer {token}")
    assert response.status == 421
    assert b"the secret" not in response.body


def test_no_listing_contains_a_secret(credentials: CredentialCache) -> None:
    credentials.tokens.add("admin")
    credentials.users.add("alice", "correct horse battery")
    sent = msgspec.json.encode([credentials.tokens.list_all(), credentials.users.list_all()])
    assert not any(word in sent for word in (b"digest", b"hash", b"argon2", b"stamp", b"fsmi_"))


def test_the_credential_of_a_node_is_valid_for_that_node_only(credentials: CredentialCache) -> None:
    access = AccessControl(credentials, AuthRateLimiter(lambda: 1.0), loopback_only=False)
    key = credentials.tokens.add("join").secret
    who = credentials.identify_token(credentials.redeem_join_token(key, "id-1", "gpu1").secret)
    assert who is not None
    assert access.authorize(who, "report", "id-1") is None
    for action, node_id in (("report", "id-2"), ("view", None), ("administrate", None)):
        assert access.authorize(who, action, node_id) is not None  # type: ignore[arg-type]
    with pytest.raises(Refused):
        credentials.redeem_join_token(key, "id-1", "gpu1")


def test_sql_in_names_is_text(credentials: CredentialCache, engine: Engine) -> None:
    evil = "'; DROP TABLE users; --"
    key = credentials.tokens.add("join", evil).secret
    credentials.redeem_join_token(key, evil, evil)
    credentials.users.add(evil, "correct horse battery")
    assert [user.name for user in credentials.users.list_all()] == [evil]
    assert credentials.has_node_credential(evil)
    assert credentials.revoke_token(evil)


def test_the_linter_refuses_pickle_and_a_database_outside_its_files() -> None:
    rules = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    banned = rules["flake8-tidy-imports"]["banned-api"]
    assert {"pickle", "sqlite3", "sqlalchemy"} <= set(banned)
    hub = PROJECT / "src/fleet_smi/hub"
    allowed = {
        hub / f"{name}.py"
        for name in (
            *("database", "node_store", "tokens", "users", "sessions", "credentials", "closings"),
            *("reservations", "reservation_store", "reservation_tables", "state_metadata"),
            "queue/store",
        )
    }
    shared = ("state_database", "ownership", "leadership", "node_store", "setup")
    allowed |= {hub / "cluster" / f"{name}.py" for name in shared}
    for room in ("storage", "queries"):
        allowed |= set((hub / "history" / room).glob("*.py"))
    using = {
        path for path in (PROJECT / "src").rglob("*.py") if "import sqlalchemy" in path.read_text()
        or "from sqlalchemy" in path.read_text()
    }  # fmt: skip
    assert using
    assert using <= allowed
