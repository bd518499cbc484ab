"""`GET /api/v1/fleet`: filters, versions and compression, over a real socket."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.model.fleet import FleetView
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.loopback import send_raw_request
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

FLEET = "/api/v1/fleet"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Two nodes: alice is on a GPU of the first, a user called `null` on one of the second."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        running.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        running.join_and_report(
            snapshot_now("gpu02", gpu(0, uuid="GPU-x", processes=(process(user="null"),)))
        )
        yield running


def shown(hub: ThreadedHub, query: str) -> dict[str, list[int]]:
    """Which GPUs of which nodes are answered with."""
    response = hub.request("GET", f"{FLEET}?{query}")
    assert response.status == 200, response
    view = msgspec.json.decode(response.body, type=FleetView)
    return {node.name: [each.index for each in node.gpus] for node in view.nodes}


@pytest.mark.parametrize(
    "query, expected",
    [
        ("", {"gpu01": [0, 1], "gpu02": [0]}),
        ("node=gpu01", {"gpu01": [0, 1]}),
        ("node=*02", {"gpu02": [0]}),
        ("node=.*", {}),
        ("state=free", {"gpu01": [1]}),
        ("state=busy,held", {"gpu01": [0], "gpu02": [0]}),
        ("user=alice", {"gpu01": [0]}),
        ("user=null", {"gpu02": [0]}),
        ("user=alice&node=gpu02", {}),
        ("node=gpu01&sort=attention", {"gpu01": [1, 0]}),
    ],
)
def test_a_query_selects_a_part_of_the_fleet(
    hub: ThreadedHub, query: str, expected: dict[str, list[int]]
) -> None:
    assert shown(hub, query) == expected


def test_the_summary_is_always_of_the_whole_fleet(hub: ThreadedHub) -> None:
    view = msgspec.json.decode(hub.request("GET", f"{FLEET}?user=nobody").body)
    assert (view["nodes"], view["summary"]["nodes"], view["summary"]["gpus"]) == ([], 2, 3)


@pytest.mark.parametrize("query", ["state=fine", "sort=colour", "nodes=gpu01", f"node={'*' * 129}"])
def test_an_invalid_query_is_refused(hub: ThreadedHub, query: str) -> None:
    response = hub.request("GET", f"{FLEET}?{query}")
    assert response.status == 400
    assert error_code(response) in ("bad_query", "bad_request")


def test_a_pattern_of_many_stars_is_matched_quickly(hub: ThreadedHub) -> None:
    assert shown(hub, f"node={'*a' * 60}b") == {}


def test_a_current_etag_gets_304(hub: ThreadedHub) -> None:
    hub.wait_until_published()
    first = hub.request("GET", FLEET)
    tag = first.headers["etag"]
    same = hub.request("GET", FLEET, If_None_Match=f'"another", {tag}')
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    hub.join_and_report(snapshot_now("gpu03", gpu(0, uuid="GPU-y")))
    wait_until(lambda: hub.request("GET", FLEET, If_None_Match=tag).status == 200)


def test_the_etag_of_one_role_is_not_valid_for_another(hub: ThreadedHub) -> None:
    admin = hub.request("GET", FLEET, token=hub.token("admin"))
    assert hub.request("GET", FLEET, If_None_Match=admin.headers["etag"]).status == 200
    assert "Authorization" in admin.headers["vary"]


def test_the_fleet_is_gzipped_for_clients_that_accept_it(hub: ThreadedHub) -> None:
    port = int(hub.url.rpartition(":")[2])

    def sizes(*headers: str) -> Any:
        response = send_raw_request(
            port, "Host: 127.0.0.1", *headers, request=f"GET {FLEET} HTTP/1.1"
        )
        return response.headers.get("content-encoding"), response.body

    plain, packed = sizes(), sizes("Accept-Encoding: br, gzip;q=0.5")
    assert plain[0] is None
    assert packed[0] == "gzip"
    assert len(packed[1]) < len(plain[1]) / 2
    assert msgspec.json.decode(zlib.decompress(packed[1], zlib.MAX_WBITS | 16))["nodes"]
    assert sizes("Accept-Encoding: gzip;q=0")[0] is None


def test_command_lines_are_for_admins_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    secret = process(command="python train.py --data /home/alice")
    with ThreadedHub(tmp_path) as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, processes=(secret,))))
        path = f"{FLEET}?node=gpu01"
        assert b"train.py" not in hub.request("GET", path).body
        assert b"train.py" not in hub.request("GET", path, token=hub.token("viewer")).body
        assert b"train.py" in hub.request("GET", path, token=hub.token("admin")).body


def test_viewers_can_be_shown_scripts_without_their_arguments(tmp_path: Path) -> None:
    secret = process(command="python /home/alice/train.py --data /home/alice")
    with ThreadedHub(tmp_path, hub__commands_for_viewers="script") as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, processes=(secret,))))
        body = hub.request("GET", f"{FLEET}?node=gpu01").body
    assert b'"python train.py"' in body
    assert b"/home/alice" not in body


def test_a_nodes_credential_may_not_view_the_fleet(hub: ThreadedHub) -> None:
    token = hub.join("id-of-gpu09", "gpu09")
    response = hub.request("GET", FLEET, token=token)
    assert (response.status, error_code(response)) == (403, "forbidden")
