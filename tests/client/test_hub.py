"""The client of a hub: structs of the model, and errors with the hub's message."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from fleet_smi import api
from fleet_smi.client.hub import HubClient
from fleet_smi.errors import (
    FleetError,
    NotFound,
    Refused,
    Throttled,
    Undecodable,
    Unmet,
    Unreachable,
    UsageError,
)
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.units import GIB
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.client.scripted_server import ScriptedServer, http_response
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

ERROR_BODY = b'{"error":{"code":"x","message":"from the hub\\u001b[31m"}}'


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path) as running:
        running.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        yield running


def received_error(response: bytes) -> FleetError:
    with ScriptedServer([response]) as peer, closing(HubClient(peer.url)) as client:
        with pytest.raises(FleetError) as caught:
            client.fleet()
        return caught.value


def test_fleet_and_node_are_decoded_as_structs(hub: ThreadedHub) -> None:
    with closing(HubClient(hub.url)) as client:
        assert [each.verdict.state for each in client.fleet().nodes[0].gpus] == ["busy", "free"]
        assert client.node("id-of-gpu01").name == "gpu01"
        with pytest.raises(UsageError, match=r"no node has the id \.\./x"):
            client.node("../x")


def test_only_an_admin_may_change_a_node(hub: ThreadedHub) -> None:
    with (
        closing(HubClient(hub.url, token=hub.token("viewer"))) as viewer,
        pytest.raises(Refused, match="only an admin may do this"),
    ):
        viewer.label("id-of-gpu01", name="mine")
    with closing(HubClient(hub.url, token=hub.token("admin"))) as admin:
        admin.label("id-of-gpu01", name="big-one", labels={"rack": "b"})
        node = admin.node("id-of-gpu01")
        assert (node.name, node.labels) == ("big-one", {"rack": "b"})
        admin.remove("id-of-gpu01")
        assert admin.fleet().nodes == ()


def test_an_unknown_token_is_refused(hub: ThreadedHub) -> None:
    with (
        closing(HubClient(hub.url, token="fsmi_viewer_x")) as client,
        pytest.raises(Refused, match="unknown token"),
    ):
        client.fleet()


@pytest.mark.parametrize(
    "status, kind",
    [
        ("400 Bad", UsageError),
        ("401 No", Refused),
        ("403 No", Refused),
        ("404 Not", NotFound),
        ("421 Not", Refused),
        ("429 Slow", Throttled),
        ("500 Oh", Unreachable),
        ("503 Later", Unreachable),
    ],
)
def test_an_error_has_the_hubs_message_sanitised(status: str, kind: type[FleetError]) -> None:
    error = received_error(http_response(ERROR_BODY, status))
    assert type(error) is kind
    assert str(error).endswith("from the hub [31m")


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "500 Oh"])
def test_a_server_that_is_not_a_hub_is_an_error(status: str) -> None:
    error = received_error(http_response(b"<html>", status, "Location: http://127.0.0.1:1/"))
    assert f"answered with status {status[:3]}; is it a fleet-smi hub?" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"taken_at":"soon"}'])
def test_a_response_of_another_version_is_an_error(body: bytes) -> None:
    error = received_error(http_response(body))
    assert isinstance(error, Undecodable)
    assert "check that client and hub have the same version" in str(error)


OLDER_OFFER = b'{"wanted":1,"offered":[],"refused":[],"unmet":null}'
OLDER_PEOPLE = b'{"people":[]}'


def test_an_older_hub_is_named_as_the_reason(tmp_path: Path) -> None:
    for command, body in (("free", OLDER_OFFER), ("who", OLDER_PEOPLE)):
        with ScriptedServer([http_response(body)]) as peer:
            done = run_fleet_smi(command, "--hub", peer.url, env={"HOME": str(tmp_path)})
        assert_error_line(done, 3, "check that client and hub have the same version")


def test_every_option_of_a_request_for_gpus_is_sent_to_the_hub() -> None:
    request = GpuRequest(
        count=2,
        min_free_bytes=40 * GIB,
        model="H100 NVL",
        same_node=True,
        policy="memory",
        max_used_percent=12.5,
        vendor="nvidia",
    )
    refusal = http_response(ERROR_BODY, "400 Bad")
    with ScriptedServer([refusal]) as peer, closing(HubClient(peer.url)) as client:
        with pytest.raises(UsageError):
            client.free(request, at=1700000000.0, explain=True)
        target = peer.requests[0].split()[1].decode()
    path, _, query = target.partition("?")
    assert path == "/api/v1/free"
    assert dict(parse_qsl(query)) == {
        "n": "2",
        "min_free": f"{40 * GIB}B",
        "model": "H100 NVL",
        "vendor": "nvidia",
        "policy": "memory",
        "max_used": "12.5",
        "same_node": "true",
        "why": "true",
        "at": "1700000000.000",
    }


def test_the_fleet_from_python(hub: ThreadedHub) -> None:
    fleet = api.Fleet(hub.url)
    assert [each.index for each in fleet.gpus()] == [0, 1]
    assert [each.label for each in fleet.free(1, min_free="40GiB")] == ["gpu01:1"]
    assert [each.user for each in fleet.people()] == ["alice"]
    assert fleet.view().summary.nodes == 1
    with pytest.raises(Unmet):
        fleet.free(2)
    fleet.close()


def test_a_fleet_needs_a_hub() -> None:
    with pytest.raises(UsageError, match="no hub given"):
        api.Fleet()
