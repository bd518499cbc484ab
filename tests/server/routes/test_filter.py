"""`GET /api/v1/filter` and `fleet?filter=`: one language, parsed by the hub."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from tests.builders import gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """alice is on the first of two GPUs."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        running.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        yield running


def meaning(hub: ThreadedHub, text: str) -> Any:
    response = hub.request("GET", f"/api/v1/filter?{urlencode({'text': text})}")
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def test_a_filter_is_answered_with_its_terms(hub: ThreadedHub) -> None:
    response = meaning(hub, "free mem>40G")
    assert response["error"] is None
    assert [(term["key"], term["op"], term["bound"]) for term in response["terms"]] == [
        ("state", ":", None),
        ("mem", ">", 40 << 30),
    ]


def test_no_filter_has_no_terms(hub: ThreadedHub) -> None:
    assert meaning(hub, "") == {"terms": [], "error": None}


def test_an_invalid_filter_is_explained_in_a_normal_response(hub: ThreadedHub) -> None:
    response = meaning(hub, "modle:A100")
    assert response["terms"] == []
    assert "did you mean 'model'" in response["error"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("free", [1]), ("user:alice", [0]), ("-alice mem>1G", [1]), ("", [0, 1]), ("load>200", [])],
)
def test_a_filter_selects_gpus_of_the_fleet(
    hub: ThreadedHub, text: str, expected: list[int]
) -> None:
    response = hub.request("GET", f"/api/v1/fleet?{urlencode({'filter': text})}")
    nodes = msgspec.json.decode(response.body)["nodes"]
    assert [each["index"] for node in nodes for each in node["gpus"]] == expected


def test_an_invalid_filter_of_the_fleet_is_refused(hub: ThreadedHub) -> None:
    response = hub.request("GET", "/api/v1/fleet?filter=colour:red")
    assert (response.status, error_code(response)) == (400, "bad_request")


def test_a_nodes_credential_may_not_use_filters(hub: ThreadedHub) -> None:
    token = hub.join("id-of-gpu09", "gpu09")
    assert hub.request("GET", "/api/v1/filter?text=free", token=token).status == 403
