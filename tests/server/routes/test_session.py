"""`/api/v1/session`: who is signed in, signing in and out, and cross-site requests."""

import msgspec

from fleet_smi.client.connection import Response
from tests.server.routes.responses import get_json
from tests.server.threaded_hub import ThreadedHub, error_code


def test_the_session_names_the_sender(hub: ThreadedHub) -> None:
    assert get_json(hub, "/api/v1/session")["how"] == "open"
    response = hub.request("GET", "/api/v1/session", token=hub.token("admin"))
    assert msgspec.json.decode(response.body)["role"] == "admin"


def sign_in(hub: ThreadedHub, password: str) -> Response:
    """Sign in as the hub's own page does."""
    body = msgspec.json.encode({"name": "ada", "password": password})
    page = {"Sec_Fetch_Site": "same-origin", "Content_Type": "application/json"}
    return hub.request("POST", "/api/v1/session", body, **page)


def test_logging_in_and_out(hub: ThreadedHub) -> None:
    hub.server.credentials.users.add("ada", "correct horse battery", "admin")
    hub.server.credentials.refresh()
    wrong = sign_in(hub, "guess")
    assert (wrong.status, error_code(wrong)) == (401, "bad_login")
    entered = sign_in(hub, "correct horse battery")
    assert (entered.status, entered.body) == (204, b"")
    cookie, *limits = entered.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(limits)
    found = hub.request("GET", "/api/v1/session", Cookie=cookie)
    assert msgspec.json.decode(found.body) == {
        "name": "ada",
        "role": "admin",
        "how": "session",
        "person": "ada",
    }
    left = hub.request(
        "DELETE",
        "/api/v1/session",
        Cookie=cookie,
        Sec_Fetch_Site="same-origin",
        Content_Type="application/json",
    )
    assert (left.status, "Max-Age=0" in left.headers["set-cookie"]) == (204, True)
    copied = hub.request("GET", "/api/v1/session", Cookie=cookie)
    assert msgspec.json.decode(copied.body)["how"] == "open"


def test_a_foreign_page_changes_nothing_with_a_session_cookie(hub: ThreadedHub) -> None:
    path = "/api/v1/nodes/id-of-gpu01"
    session = hub.server.credentials
    response = hub.request(
        "DELETE", path, Cookie="fleet_smi_session=x", Sec_Fetch_Site="cross-site"
    )
    assert (response.status, error_code(response)) == (403, "cross_site")
    assert session.has_node_credential("id-of-gpu01")
