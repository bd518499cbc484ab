"""`/api/v1/users`: the accounts that an admin adds, changes and removes."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.server.threaded_hub import ThreadedHub, error_code

USERS = "/api/v1/users"
PASSWORD, OTHER = "correct horse battery", "another horse battery"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        yield running


@pytest.fixture
def admin(hub: ThreadedHub) -> str:
    return hub.token("admin", note="the admin's")


def _roles(hub: ThreadedHub, admin: str) -> dict[str, str]:
    listed = msgspec.json.decode(hub.request("GET", USERS, token=admin).body)["users"]
    assert all(set(user) == {"name", "role", "created_at"} for user in listed)
    return {user["name"]: user["role"] for user in listed}


def _can_log_in(hub: ThreadedHub, password: str) -> bool:
    return hub.server.credentials.users.verify_password("vic", password)


def test_an_account_is_added_changed_and_removed(hub: ThreadedHub, admin: str) -> None:
    body = {"name": "vic", "password": PASSWORD}
    assert hub.request_json("POST", USERS, body, token=admin).status == 204
    assert _roles(hub, admin) == {"vic": "viewer"}
    assert _can_log_in(hub, PASSWORD)
    change = {"role": "admin", "password": OTHER}
    assert hub.request_json("PATCH", f"{USERS}/vic", change, token=admin).status == 204
    assert _roles(hub, admin) == {"vic": "admin"}
    assert (_can_log_in(hub, PASSWORD), _can_log_in(hub, OTHER)) == (False, True)
    assert hub.request("DELETE", f"{USERS}/vic", token=admin).status == 204
    assert _roles(hub, admin) == {}
    assert not _can_log_in(hub, OTHER)


def test_bad_changes_are_refused_with_a_reason(hub: ThreadedHub, admin: str) -> None:
    short = hub.request_json("POST", USERS, {"name": "vic", "password": "short"}, token=admin)
    assert short.status == 400
    for method in ("PATCH", "DELETE"):
        refused = hub.request_json(method, f"{USERS}/nobody", {}, token=admin)
        assert (refused.status, error_code(refused)) == (404, "unknown_user")


def test_only_admins_manage_accounts(hub: ThreadedHub) -> None:
    viewer = hub.token("viewer")
    body = {"name": "eve", "password": PASSWORD, "role": "admin"}
    assert hub.request_json("POST", USERS, body, token=viewer).status == 403
    assert hub.request("GET", USERS, token=viewer).status == 403
