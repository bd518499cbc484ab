"""`GET /install` and its wheels: a constant script, and wheels for who may have them."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi import __version__
from fleet_smi.client.connection import Response
from tests.builders import gpu
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

WHEELS = "/install/wheels"


def decoded(response: Response) -> Any:
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def test_the_script_is_the_same_for_everybody_and_lists_the_wheels(hub: ThreadedHub) -> None:
    token = hub.token("join", max_uses=1)
    listed = decoded(hub.request("GET", WHEELS, token=token))
    assert listed["version"] == __version__
    script = hub.request("GET", "/install").body
    # Who asks, by which name or with which token, changes nothing: its checksum can be published.
    assert hub.request("GET", "/install?x=$(id)", token=token, Host="localhost").body == script
    line = decoded(hub.request_json("POST", "/api/v1/join-command", {}, token=hub.token("admin")))
    assert f" {sha256(script).hexdigest()} {hub.url}" in line["install_line"]
    for wheel in listed["wheels"]:
        assert f"{wheel['sha256']}  {wheel['name']}\n".encode() in script
        body = hub.request("GET", f"{WHEELS}/{wheel['name']}", token=token).body
        assert (sha256(body).hexdigest(), len(body)) == (wheel["sha256"], wheel["size_bytes"])
    # None of it has used up the token.
    assert hub.join("id-of-script", "script", token)
    hub.server.credentials.refresh()  # as every second
    assert hub.request("GET", WHEELS, token=token).status == 403


@pytest.mark.parametrize("who", ["nobody", "guess", "viewer", "expired", "admin", "node"])
def test_wheels_are_for_join_tokens_nodes_and_admins(hub: ThreadedHub, who: str) -> None:
    tokens = {
        "nobody": None,
        "guess": "fsmi_join_guess",
        "viewer": hub.token("viewer"),
        "expired": hub.token("join", lifetime_seconds=-1.0),
        "admin": hub.token("admin"),
        "node": hub.join(f"id-of-{who}", who),
    }
    response = hub.request("GET", WHEELS, token=tokens[who])
    assert response.status == (200 if who in ("admin", "node") else 403)
    name = "fleet_smi-x-py3-none-any.whl"
    assert hub.request("GET", f"{WHEELS}/{name}", token=tokens[who]).status in (403, 404)


def test_a_token_that_a_command_has_just_stored_is_valid_at_once(hub: ThreadedHub) -> None:
    for _ in range(3):
        token = hub.server.credentials.tokens.add("join", max_uses=1).secret
        assert hub.request("GET", WHEELS, token=token).status == 200


@pytest.mark.parametrize(
    "name", ["../hub.db", "..%2fhub.db", "%2e%2e%2fadmin-token", ".", "hub.db", "%00", "*.whl"]
)
def test_nothing_but_a_wheel_is_served(hub: ThreadedHub, name: str) -> None:
    response = hub.request("GET", f"{WHEELS}/{name}", token=hub.token("admin"))
    assert (response.status, error_code(response)) == (404, "not_found")


def test_guesses_of_a_token_are_limited(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        statuses = [hub.request("GET", WHEELS, token=f"guess{at}").status for at in range(40)]
    assert statuses[0] == 403
    assert statuses[-1] == 429


def test_an_agent_learns_what_the_hub_has_of_it(hub: ThreadedHub) -> None:
    token = hub.join("id-of-asking", "asking")
    first = decoded(hub.request("GET", "/api/v1/agent", token=token))
    assert (first["hub_version"], first["reported_at"]) == (__version__, None)
    hub.report(snapshot_now("asking", gpu(0)), token=token)
    state = decoded(hub.request("GET", "/api/v1/agent", token=token))
    assert state["reported_at"] <= state["now"]
    assert hub.request("GET", "/api/v1/agent", token=hub.token("viewer")).status == 403


def test_the_script_has_no_secret_and_no_address(hub: ThreadedHub) -> None:
    hub.token("join")
    script = hub.request("GET", "/install").body.decode()
    assert not re.search(r"fsmi_(join|node|admin)_\w", script)
    assert hub.url not in script
