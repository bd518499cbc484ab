"""`/api/v1/personal-tokens`: people make, list and revoke their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.connection import Response
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/personal-tokens"
PASSWORD = "correct horse battery"
OWN_PAGE = {"Sec_Fetch_Site": "same-origin", "Content_Type": "application/json"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        running.server.credentials.users.add("ada", PASSWORD, "admin")
        running.server.credentials.users.add("bob", PASSWORD)
        running.server.credentials.refresh()
        yield running


def exchange(hub: ThreadedHub, name: str, password: str = PASSWORD) -> Response:
    return hub.request_json("POST", PATH, {"name": name, "password": password, "note": "laptop"})


def made(response: Response) -> dict[str, Any]:
    assert response.status == 200, response
    fields: dict[str, Any] = msgspec.json.decode(response.body)
    return fields


def who(hub: ThreadedHub, token: str) -> dict[str, Any] | None:
    response = hub.request("GET", "/api/v1/session", token=token)
    return made(response) if response.status == 200 else None


def test_a_password_is_exchanged_for_a_token_of_that_person(hub: ThreadedHub) -> None:
    token = made(exchange(hub, "ada"))["token"]
    assert token.startswith("fsmi_personal_")
    assert who(hub, token) == {"name": "ada", "role": "admin", "how": "token", "person": "ada"}
    assert hub.request("GET", "/api/v1/tokens", token=token).status == 200
    assert made(exchange(hub, "bob"))["role"] == "viewer"


def test_wrong_passwords_are_refused_and_counted(hub: ThreadedHub) -> None:
    codes = [error_code(exchange(hub, "ada", "guess")) for _ in range(12)]
    assert codes[0] == "bad_login"
    assert codes[-1] == "too_many_failures"


def test_a_session_makes_a_token_and_a_token_makes_none(hub: ThreadedHub) -> None:
    login = msgspec.json.encode({"name": "bob", "password": PASSWORD})
    cookie = hub.request("POST", "/api/v1/session", login, **OWN_PAGE).headers["set-cookie"]
    cookie = cookie.partition(";")[0]
    token = made(hub.request("POST", PATH, b"{}", Cookie=cookie, **OWN_PAGE))["token"]
    found = who(hub, token)
    assert found is not None
    assert found["person"] == "bob"
    foreign = {**OWN_PAGE, "Sec_Fetch_Site": "cross-site"}
    refused = hub.request("POST", PATH, b"{}", Cookie=cookie, **foreign)
    assert (refused.status, error_code(refused)) == (403, "cross_site")
    for other in (token, hub.token("admin")):
        refused = hub.request_json("POST", PATH, {}, token=other)
        assert (refused.status, error_code(refused)) == (403, "login_required")
    refused = hub.request_json("POST", PATH, {})
    assert (refused.status, error_code(refused)) == (403, "no_person")


def test_people_see_and_revoke_their_own_tokens_alone(hub: ThreadedHub) -> None:
    ada, bob = made(exchange(hub, "ada")), made(exchange(hub, "bob"))
    again = made(exchange(hub, "bob"))
    listed = hub.request("GET", PATH, token=bob["token"])
    assert [each["id"] for each in made(listed)["tokens"]] == [bob["id"], again["id"]]
    assert bob["token"].encode() not in listed.body
    refused = hub.request("DELETE", f"{PATH}/{ada['id']}", token=bob["token"])
    assert (refused.status, error_code(refused)) == (404, "unknown_token")
    assert hub.request("DELETE", f"{PATH}/{again['id']}", token=bob["token"]).status == 204
    assert hub.request("DELETE", f"{PATH}/current", token=bob["token"]).status == 204
    assert [who(hub, token["token"]) is None for token in (ada, bob, again)] == [False, True, True]


def test_a_token_has_no_more_rights_than_the_account(hub: ThreadedHub) -> None:
    token = made(exchange(hub, "ada"))["token"]
    credentials = hub.server.credentials
    credentials.change_users(lambda store: store.set_role("ada", "viewer"))
    found = who(hub, token)
    assert found is not None
    assert found["role"] == "viewer"
    credentials.change_users(lambda store: store.remove("ada"))
    assert who(hub, token) is None


def test_a_new_password_ends_the_tokens_that_the_old_one_was_exchanged_for(
    hub: ThreadedHub,
) -> None:
    stolen, other = made(exchange(hub, "ada"))["token"], made(exchange(hub, "bob"))["token"]
    credentials = hub.server.credentials
    credentials.change_users(lambda store: store.set_password("ada", "another good password"))
    assert who(hub, stolen) is None
    assert who(hub, other) is not None


def test_an_admin_makes_a_token_for_somebody_without_an_account(hub: ThreadedHub) -> None:
    body = {"role": "viewer", "person": "carol", "expires": "90d"}
    token = made(hub.request_json("POST", "/api/v1/tokens", body, token=hub.token("admin")))
    found = who(hub, token["token"])
    assert found is not None
    assert (found["person"], found["role"]) == ("carol", "viewer")
    for bad in ({"role": "join", "person": "carol"}, {"role": "viewer", "person": "a\nb"}):
        refused = hub.request_json("POST", "/api/v1/tokens", bad, token=hub.token("admin"))
        assert (refused.status, error_code(refused)) == (400, "bad_request")


def test_a_person_has_a_limited_number_of_tokens(hub: ThreadedHub) -> None:
    for _ in range(50):
        hub.server.credentials.tokens.add("viewer", person="carol")
    body = {"role": "viewer", "person": "carol"}
    refused = hub.request_json("POST", "/api/v1/tokens", body, token=hub.token("admin"))
    assert (refused.status, error_code(refused)) == (400, "bad_request")
    assert b"50 tokens" in refused.body
