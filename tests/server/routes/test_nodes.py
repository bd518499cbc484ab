"""`/api/v1/nodes`: one node for viewers; names, labels and removal for admins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.client.hub import HubClient
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.model.fleet import NodeView
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/nodes/id-of-gpu01"
NONSENSE: tuple[Any, ...] = (
    {"name": "x" * 129},
    {"labels": {"": "v"}},
    {"labels": {"k": 1}},
    [],
    {"n": 1},
)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        running.join_and_report(snapshot_now("gpu01", gpu(0), labels={"rack": "a", "room": "2"}))
        yield running


def node(hub: ThreadedHub) -> NodeView:
    return msgspec.json.decode(hub.request("GET", PATH).body, type=NodeView)


def test_a_node_is_returned_in_full(hub: ThreadedHub) -> None:
    assert (node(hub).name, node(hub).via, len(node(hub).gpus)) == ("gpu01", "push", 1)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("node_id", ["nobody", "files:%2Fnfs%2Fgpu-status", "%00%1b"])
def test_an_unknown_node_is_not_found(hub: ThreadedHub, method: str, node_id: str) -> None:
    admin = hub.token("admin")
    response = hub.request_json(method, f"/api/v1/nodes/{node_id}", {}, token=admin)
    assert (response.status, error_code(response)) == (404, "unknown_node")


def test_an_admins_name_and_labels_override_the_nodes_own(hub: ThreadedHub) -> None:
    admin = hub.token("admin")
    wanted = {"name": "big-one", "labels": {"rack": "b", "owner": "alice"}}
    assert hub.request_json("PATCH", PATH, wanted, token=admin).status == 204
    assert node(hub).name == "big-one"
    assert node(hub).labels == {"rack": "b", "room": "2", "owner": "alice"}
    hub.request_json("PATCH", PATH, {"name": "", "labels": {"rack": "", "owner": ""}}, token=admin)
    assert (node(hub).name, node(hub).labels) == ("gpu01", {"rack": "a", "room": "2"})


def test_names_are_sanitised_and_limited_in_length(hub: ThreadedHub) -> None:
    admin = hub.token("admin")
    hub.request_json(
        "PATCH", PATH, {"name": "a\x1b[31mb\u202e", "labels": {"k": "v\r"}}, token=admin
    )
    assert node(hub).name == "a [31mb"
    assert node(hub).labels["k"] == "v"
    for nonsense in (*NONSENSE, {"labels": {"a,b=c": "x"}}, {"labels": {"../": "x"}}):
        response = hub.request_json("PATCH", PATH, nonsense, token=admin)
        assert (response.status, error_code(response)) == (400, "bad_body")


def test_only_an_admin_changes_anything(hub: ThreadedHub) -> None:
    for token in (None, hub.token("viewer")):
        for method in ("PATCH", "DELETE"):
            response = hub.request_json(method, PATH, {"name": "mine"}, token=token)
            assert response.status == (401 if token is None else 403)
            error_code(response)
    assert node(hub).name == "gpu01"


def test_a_removed_node_is_gone_with_its_credential(hub: ThreadedHub, tmp_path: Path) -> None:
    token = hub.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-x")))
    assert (
        hub.request("DELETE", "/api/v1/nodes/id-of-gpu02", token=hub.token("admin")).status == 204
    )
    assert [each.name for each in hub.fleet().nodes] == ["gpu01"]
    refused = hub.report(snapshot_now("gpu02", gpu(0, uuid="GPU-x"), sequence=1), token=token)
    assert (refused.status, error_code(refused)) == (401, "bad_token")
    hub.stop()
    with ThreadedHub(tmp_path) as again:
        assert [each.name for each in again.fleet().nodes] == ["gpu01"]
        again.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-x"), sequence=2))
        assert [each.name for each in again.fleet().nodes] == ["gpu01", "gpu02"]


def test_a_target_that_never_reported_can_be_removed(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "state", [FilesSource(str(tmp_path / "gone"))]) as hub:
        wait_until(lambda: bool(hub.fleet().nodes))
        (silent,) = hub.fleet().nodes
        assert "cannot be read" in (silent.trouble or "")
        client = HubClient(hub.url, token=hub.token("admin"))
        assert client.node(silent.node_id).name == silent.name
        client.remove(silent.node_id)
        client.close()
