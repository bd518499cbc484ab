"""Users whom an agent names: accepted from a node's credential only, with a viewer's rights."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fleet_smi.client.connection import Response
from tests.builders import gpu
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

SESSION = "/api/v1/session"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def node(hub: ThreadedHub) -> str:
    return hub.join_and_report(snapshot_now("gpu01", gpu(0)))


def ask(
    hub: ThreadedHub, token: str | None, user: str, method: str = "GET", path: str = SESSION
) -> Response:
    return hub.request(method, path, token=token, X_Fleet_Smi_User=user)


def test_a_user_named_by_an_agent_is_a_person_with_the_rights_of_a_viewer(
    hub: ThreadedHub, node: str
) -> None:
    found = ask(hub, node, "j.m%C3%BCller%40example.org")
    assert msgspec.json.decode(found.body) == {
        "name": "j.müller@example.org",
        "role": "viewer",
        "how": "agent",
        "person": "j.müller@example.org",
    }
    assert ask(hub, node, "alice", path="/api/v1/offers?n=1").status == 200


def test_only_a_node_may_name_a_user(hub: ThreadedHub, node: str) -> None:
    personal = hub.token("admin", person="maria")
    for token in (None, hub.token("viewer"), hub.token("admin"), personal):
        refused = ask(hub, token, "alice")
        assert (refused.status, error_code(refused)) == (403, "not_an_agent")


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/api/v1/fleet"),
        ("GET", "/api/v1/stream"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/tokens"),
        ("GET", "/api/v1/personal-tokens"),
        ("DELETE", "/api/v1/nodes/id-of-gpu01"),
    ],
)
def test_an_agent_can_do_nothing_else_in_the_name_of_a_user(
    hub: ThreadedHub, node: str, method: str, path: str
) -> None:
    refused = ask(hub, node, "alice", method, path)
    assert (refused.status, error_code(refused)) == (403, "not_forwarded")
    # Without the name it is a node, which may view nothing at all.
    assert hub.request(method, path, token=node).status == 403


@pytest.mark.parametrize("user", ["", "%0a", "a%00b", "x" * 129, "%ff", "%20"])
def test_a_name_that_cannot_be_shown_is_refused(hub: ThreadedHub, node: str, user: str) -> None:
    refused = ask(hub, node, user)
    assert (refused.status, error_code(refused)) == (400, "bad_user")


def test_a_revoked_node_speaks_for_nobody(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        token = hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        assert ask(hub, token, "alice").status == 200
        hub.server.credentials.revoke_token("id-of-gpu01")
        refused = ask(hub, token, "alice")
        assert (refused.status, error_code(refused)) == (401, "bad_token")
