"""`/api/v1/tokens` and the join command: what an admin creates and revokes."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.connection import Response
from tests.builders import gpu
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

TOKENS = "/api/v1/tokens"
LINE = "/api/v1/join-command"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        yield running


@pytest.fixture
def admin(hub: ThreadedHub) -> str:
    return hub.token("admin", note="the admin's")


def json_of(response: Response) -> Any:
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def test_a_new_token_is_valid_immediately_and_until_revoked(hub: ThreadedHub, admin: str) -> None:
    made = json_of(
        hub.request_json("POST", TOKENS, {"role": "viewer", "note": "cron"}, token=admin)
    )
    assert json_of(hub.request("GET", "/api/v1/session", token=made["token"]))["name"] == "cron"
    assert hub.request("DELETE", f"{TOKENS}/{made['id']}", token=admin).status == 204
    refused = hub.request("GET", "/api/v1/session", token=made["token"])
    assert (refused.status, error_code(refused)) == (401, "bad_token")
    again = hub.request("DELETE", f"{TOKENS}/{made['id']}", token=admin)
    assert (again.status, error_code(again)) == (404, "unknown_token")


def test_the_list_has_every_valid_token_and_no_secret(hub: ThreadedHub, admin: str) -> None:
    node = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    made = json_of(
        hub.request_json("POST", TOKENS, {"role": "viewer", "expires": "1h"}, token=admin)
    )
    gone = json_of(
        hub.request_json("POST", TOKENS, {"role": "viewer", "expires": "0s"}, token=admin)
    )
    response = hub.request("GET", TOKENS, token=admin)
    listed = {each["id"]: each for each in json_of(response)["tokens"]}
    assert gone["id"] not in listed
    viewer = listed[made["id"]]
    assert (viewer["role"], viewer["used_at"]) == ("viewer", None)
    assert viewer["expires_at"] == pytest.approx(viewer["created_at"] + 3600)
    assert [each["node_id"] for each in listed.values() if each["role"] == "node"] == [
        "id-of-gpu01"
    ]
    for secret in (admin, node, made["token"]):
        assert secret.encode() not in response.body


def test_the_credential_of_a_node_is_revoked_by_the_id_of_the_node(
    hub: ThreadedHub, admin: str
) -> None:
    token = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    assert hub.request("DELETE", f"{TOKENS}/id-of-gpu01", token=admin).status == 204
    assert hub.report(snapshot_now("gpu01", gpu(0), sequence=1), token=token).status == 401


def test_behind_a_trusted_proxy_the_join_line_has_the_url_of_the_proxy(tmp_path: Path) -> None:
    forwarded = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "gpu.example.org"}
    json = {"Content_Type": "application/json"}
    for proxies, url in (("127.0.0.1/32", "https://gpu.example.org:443/gpus"), ("10.0.0.1/32", "")):
        with ThreadedHub(tmp_path, hub__base_path="/gpus", hub__trusted_proxies=proxies) as running:
            token = running.token("admin")
            made = json_of(running.request("POST", LINE, b"{}", token=token, **forwarded, **json))
            assert f"--to {url or running.url + '/gpus'} " in made["line"]


def test_the_join_line_has_the_public_url_of_the_settings(tmp_path: Path) -> None:
    public_url = "https://gpu.example.org/gpus"
    with ThreadedHub(tmp_path, hub__base_path="/gpus", hub__public_url=public_url) as running:
        made = json_of(running.request_json("POST", LINE, {}, token=running.token("admin")))
        assert "--to https://gpu.example.org:443/gpus " in made["line"]
        # Agents that connect to it are not refused for the name.
        assert running.request("GET", "/healthz", Host="gpu.example.org:443").status == 200


def test_the_join_line_has_the_url_that_the_admin_used(hub: ThreadedHub, admin: str) -> None:
    made = json_of(hub.request_json("POST", LINE, {"uses": 1}, token=admin))
    message = shlex.split(made["line"])
    assert message[3:] == ["fleet-smi", "agent", "--to", hub.url, "--join-file", "-"]
    assert made["limits"] == "valid for 24 hours and 1 machine"
    assert hub.join("id-of-gpu01", "gpu01", message[1])
    good = json_of(hub.request("GET", TOKENS, token=admin))["tokens"]
    assert made["id"] not in [each["id"] for each in good]


def test_the_join_line_has_the_origin_of_a_proxy(hub: ThreadedHub, admin: str) -> None:
    requested = {"Origin": "https://gpus.example", "Content_Type": "application/json"}
    made = json_of(hub.request("POST", LINE, b"{}", token=admin, **requested))
    assert shlex.split(made["line"])[6] == "https://gpus.example:443"


def test_the_join_line_pins_a_self_signed_certificate(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__tls="self-signed") as hub:
        made = json_of(hub.request_json("POST", LINE, {}, token=hub.token("admin")))
        message = shlex.split(made["line"])
        assert message[6].startswith("https://127.0.0.1:")
        assert message[9:] == ["--fingerprint", hub.server.fingerprint]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", TOKENS, None),
        ("POST", TOKENS, {"role": "admin"}),
        ("DELETE", f"{TOKENS}/id-of-gpu01", {}),
        ("POST", LINE, {}),
    ],
)
def test_only_an_admin_may_list_create_or_revoke_tokens(
    hub: ThreadedHub, method: str, path: str, body: Any
) -> None:
    node = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
    for token, status in ((None, 401), (hub.token("viewer"), 403), (node, 403)):
        response = hub.request_json(method, path, body, token=token)
        assert response.status == status
        error_code(response)
    assert hub.report(snapshot_now("gpu01", gpu(0), sequence=1), token=node).status == 200


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"role": "node"},
        {"role": "viewer", "uses": 1},
        {"role": "join", "uses": 0},
        {"role": "viewer", "expires": "soon"},
        {"role": "viewer", "note": "x" * 129},
        {"role": "viewer", "more": 1},
    ],
)
def test_an_invalid_token_request_is_refused(
    hub: ThreadedHub, admin: str, nonsense: dict[str, Any]
) -> None:
    before = len(json_of(hub.request("GET", TOKENS, token=admin))["tokens"])
    response = hub.request_json("POST", TOKENS, nonsense, token=admin)
    assert response.status == 400
    error_code(response)
    assert len(json_of(hub.request("GET", TOKENS, token=admin))["tokens"]) == before


def test_notes_are_sanitised(hub: ThreadedHub, admin: str) -> None:
    hub.request_json("POST", TOKENS, {"role": "viewer", "note": "a\x1b[31mb\u202e"}, token=admin)
    notes = [each["note"] for each in json_of(hub.request("GET", TOKENS, token=admin))["tokens"]]
    assert "a [31mb" in notes


def test_a_foreign_page_cannot_create_a_token_with_a_session(hub: ThreadedHub) -> None:
    hub.server.credentials.users.add("alice", "correct horse battery", "admin")
    hub.server.credentials.refresh()
    own = {"Origin": hub.url, "Content_Type": "application/json"}
    login = b'{"name": "alice", "password": "correct horse battery"}'
    cookie = (
        hub.request("POST", "/api/v1/session", login, **own).headers["set-cookie"].split(";")[0]
    )
    for path, body in ((TOKENS, b'{"role": "admin"}'), (LINE, b"{}")):
        evil = {**own, "Origin": "http://evil.example", "Cookie": cookie}
        refused = hub.request("POST", path, body, **evil)
        assert (refused.status, error_code(refused)) == (403, "cross_site")
        assert hub.request("POST", path, body, **{**own, "Cookie": cookie}).status == 200
