"""The small endpoints: free, people, index, health, metrics, join and session."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleet_smi.client.connection import Response
from tests.builders import gpu, process
from tests.cli.program import run_fleet_smi
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Two nodes with a free GPU each; alice is on one more, bob on two."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        bob = process(8, "bob")
        running.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        cards = (gpu(each, uuid=f"GPU-2-{each}", processes=(bob,)) for each in range(2))
        running.join_and_report(snapshot_now("gpu02", *cards, gpu(2, uuid="GPU-2-2")))
        yield running


def get(hub: ThreadedHub, path: str) -> Any:
    response = hub.request("GET", path)
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def printed(hub: ThreadedHub, tmp_path: Path, *arguments: str) -> Any:
    """What the command says of the same fleet."""
    done = run_fleet_smi(*arguments, "--json", "--hub", hub.url, env={"HOME": str(tmp_path)})
    return json.loads(done.stdout)


def without_ages(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_ages(each)
            for key, each in value.items()
            if key not in ("age_seconds", "seconds", "taken_at", "words")
        }
    return [without_ages(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "query, flags",
    [
        ("", ()),
        ("n=2", ("-n", "2")),
        ("n=2&same_node=true", ("-n", "2", "--same-node")),
        ("min_free=40GiB&model=H100", ("--min-free", "40GiB", "--model", "H100")),
        ("policy=memory&max_used=90", ("--policy", "memory", "--max-used", "90")),
        ("vendor=amd", ("--vendor", "amd")),
    ],
)
def test_free_answers_as_the_command_does(
    hub: ThreadedHub, tmp_path: Path, query: str, flags: tuple[str, ...]
) -> None:
    told = get(hub, f"/api/v1/free?{query}")
    assert without_ages(told) == without_ages(printed(hub, tmp_path, "free", *flags))


def test_an_unmet_request_is_a_normal_response_with_a_reason(hub: ThreadedHub) -> None:
    told = get(hub, "/api/v1/free?n=2&same_node=true")
    assert "2" in told["unmet"]
    assert {each["node"] for each in get(hub, "/api/v1/free")["offered"]} == {"gpu01", "gpu02"}


def test_refused_gpus_can_be_left_out(hub: ThreadedHub) -> None:
    told, short = get(hub, "/api/v1/free"), get(hub, "/api/v1/free?why=false")
    assert told["refused"]
    assert not short["refused"]
    assert without_ages(short["offered"]) == without_ages(told["offered"])


@pytest.mark.parametrize("query", ["n=-1", "n=x", "min_free=much", "policy=luck", "max_used=nan"])
def test_an_invalid_request_for_gpus_is_refused(hub: ThreadedHub, query: str) -> None:
    response = hub.request("GET", f"/api/v1/free?{query}")
    assert response.status == 400
    error_code(response)


def test_people_answers_as_the_command_does(hub: ThreadedHub, tmp_path: Path) -> None:
    told = get(hub, "/api/v1/people")["people"]
    assert [(each["user"], each["gpus"]) for each in told] == [("bob", 2), ("alice", 1)]
    assert without_ages(told) == without_ages(printed(hub, tmp_path, "who")["people"])
    assert [each["user"] for each in get(hub, "/api/v1/people?user=alice")["people"]] == ["alice"]
    assert get(hub, "/api/v1/people?user=null")["people"] == []


def test_curl_gets_the_table_and_a_browser_a_page(hub: ThreadedHub) -> None:
    table = hub.request("GET", "/", Accept="*/*")
    assert table.headers["content-type"] == "text/plain; charset=utf-8"
    text = table.body.decode()
    assert "gpu01" in text
    assert max(map(len, text.splitlines())) <= 120
    page = hub.request("GET", "/", Accept="text/html,application/xhtml+xml")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.body.decode().startswith("<!doctype html>")


def test_the_table_follows_the_options_of_the_query(hub: ThreadedHub) -> None:
    assert "\x1b[" in hub.request("GET", "/?color=true").body.decode()
    assert "\x1b[" not in hub.request("GET", "/?color=true", Accept="text/html").body.decode()
    narrow = hub.request("GET", "/?columns=60&overview=true").body.decode()
    assert max(map(len, narrow.splitlines())) <= 60
    assert "alice" in hub.request("GET", "/?processes=true").body.decode()
    assert error_code(hub.request("GET", "/?columns=7")) == "bad_query"


def test_metrics_are_valid_for_prometheus(hub: ThreadedHub) -> None:
    families = {
        family.name: family
        for family in text_string_to_metric_families(hub.request("GET", "/metrics").body.decode())
    }
    states = {each.labels["state"]: each.value for each in families["fleet_smi_gpus"].samples}
    assert (states["free"], states["busy"]) == (2.0, 3.0)
    labels = {
        name for family in families.values() for each in family.samples for name in each.labels
    }
    assert not labels & {"pid", "command"}


def test_health_needs_no_credential(hub: ThreadedHub) -> None:
    for path in ("/healthz", "/readyz"):
        assert get(hub, path) == {"status": "ok"}
    hub.server.hub.ready = False
    try:
        response = hub.request("GET", "/readyz")
        assert (response.status, error_code(response)) == (503, "not_ready")
        assert get(hub, "/healthz") == {"status": "ok"}
    finally:
        hub.server.hub.ready = True


def test_the_session_names_the_sender(hub: ThreadedHub) -> None:
    assert get(hub, "/api/v1/session")["how"] == "open"
    response = hub.request("GET", "/api/v1/session", token=hub.token("admin"))
    assert msgspec.json.decode(response.body)["role"] == "admin"


def signed_in(hub: ThreadedHub, password: str) -> Response:
    """The answer to somebody on the hub's own page."""
    body = msgspec.json.encode({"name": "ada", "password": password})
    page = {"Sec_Fetch_Site": "same-origin", "Content_Type": "application/json"}
    return hub.request("POST", "/api/v1/session", body, **page)


def test_logging_in_and_out(hub: ThreadedHub) -> None:
    hub.server.credentials.users.add("ada", "correct horse battery", "admin")
    hub.server.credentials.refresh()
    wrong = signed_in(hub, "guess")
    assert (wrong.status, error_code(wrong)) == (401, "bad_login")
    entered = signed_in(hub, "correct horse battery")
    assert (entered.status, entered.body) == (204, b"")
    cookie, *limits = entered.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(limits)
    told = hub.request("GET", "/api/v1/session", Cookie=cookie)
    assert msgspec.json.decode(told.body) == {"name": "ada", "role": "admin", "how": "session"}
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


def test_a_join_token_is_valid_for_joining_only(hub: ThreadedHub) -> None:
    token = hub.token("join", max_uses=1)
    assert hub.request("GET", "/api/v1/fleet", token=token).status in (401, 403)
    assert hub.join("id-of-gpu03", "gpu03", token).startswith("fsmi_")
    again = hub.request_json("POST", "/api/v1/join", {"node_id": "x", "name": "x"}, token=token)
    assert (again.status, error_code(again)) == (403, "refused")


@pytest.mark.parametrize(
    "body, status",
    [(b"{}", 400), (b"", 400), (b'{"node_id":1,"name":"x"}', 400), (b" " * 70_000, 413)],
)
def test_an_invalid_join_is_refused(hub: ThreadedHub, body: bytes, status: int) -> None:
    response = hub.request(
        "POST", "/api/v1/join", body, token=hub.token("join"), Content_Type="application/json"
    )
    assert response.status == status
    error_code(response)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"{}", "node_id is missing"),
        (b'{"node_id":1,"name":"x"}', "node_id must be a text, not a whole number"),
        (b'{"node_id":"x","name":"x","role":"admin"}', "role is not known"),
        (b"{", "it breaks off"),
    ],
)
def test_validation_errors_are_readable(hub: ThreadedHub, body: bytes, message: str) -> None:
    page = {"token": hub.token("join"), "Content_Type": "application/json"}
    response = hub.request("POST", "/api/v1/join", body, **page)
    assert msgspec.json.decode(response.body)["error"]["message"] == message
    requested = hub.request("GET", "/?columns=wide")
    message = "columns must be a whole number, not a text"
    assert msgspec.json.decode(requested.body)["error"]["message"] == message
