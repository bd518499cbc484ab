"""`GET /api/v1/free`: the same selection as `fleet-smi free`."""

from pathlib import Path

import pytest

from tests.server.routes.responses import command_json, get_json, without_ages
from tests.server.threaded_hub import ThreadedHub, error_code


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
    found = get_json(hub, f"/api/v1/free?{query}")
    assert without_ages(found) == without_ages(command_json(hub, tmp_path, "free", *flags))


def test_an_unmet_request_is_a_normal_response_with_a_reason(hub: ThreadedHub) -> None:
    found = get_json(hub, "/api/v1/free?n=2&same_node=true")
    assert "2" in found["unmet"]
    assert {each["node"] for each in get_json(hub, "/api/v1/free")["offered"]} == {"gpu01", "gpu02"}


def test_refused_gpus_can_be_left_out(hub: ThreadedHub) -> None:
    found, short = get_json(hub, "/api/v1/free"), get_json(hub, "/api/v1/free?why=false")
    assert found["refused"]
    assert not short["refused"]
    assert without_ages(short["offered"]) == without_ages(found["offered"])


@pytest.mark.parametrize("query", ["n=-1", "n=x", "min_free=much", "policy=luck", "max_used=nan"])
def test_an_invalid_request_for_gpus_is_refused(hub: ThreadedHub, query: str) -> None:
    response = hub.request("GET", f"/api/v1/free?{query}")
    assert response.status == 400
    error_code(response)
