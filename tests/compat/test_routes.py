"""The hub routes for nvgpu masters, and for pages and scripts of gpu-cluster-monitor."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.client.connection import Response
from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.hub.sources.self import SelfSource
from fleet_smi.model.snapshot import CollectorRun, Snapshot
from tests.builders import NOON, gpu, process
from tests.compat.masters import read_cluster_status, read_main_status
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.machines import wait_until
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

PASSWORD = "correct-horse-battery"
SECRET = "python serve.py --port 80"
BUSY = gpu(0, processes=(process(7, "alice", name="python", command=SECRET),))


class Away:
    """A source of a node that has never reported."""

    name = "pull"
    targets: Sequence[str] = ("gpu03",)

    async def poll(self) -> Sequence[Delivery]:
        return ()

    async def run(self, deliver: object) -> None:
        await asyncio.Event().wait()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Two nodes, one that has never reported, and a password."""
    folder = tmp_path_factory.mktemp("hub")
    with ThreadedHub(folder, [Away()], hub__get_status_password=PASSWORD) as running:
        running.join_and_report(snapshot_now("gpu01", BUSY, gpu(1)))
        running.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-2")))
        yield running


def post(hub: ThreadedHub, passwd: Any) -> Response:
    return hub.request_json("POST", "/get-status", {"passwd": passwd})


def test_a_master_of_nvgpu_has_every_node_in_order_and_an_error_for_a_silent_one(
    hub: ThreadedHub,
) -> None:
    response = hub.request("GET", "/cluster_status")
    assert response.headers["content-type"] == "application/json"
    third, first, second = read_cluster_status(response.body)  # those that are polled come first
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert (first.name, second.name) == ("gpu01", "gpu02")
    assert third == "Host not available"


def test_nodes_are_in_the_order_of_the_settings(tmp_path: Path) -> None:
    with ExitStack() as opened:
        ports = []
        for name in ("zeta", "alpha", "mid"):
            body = msgspec.json.encode({"hostname": name, "gpus": []})
            agent = opened.enter_context(closing(FixedResponseServer(0, body)))
            ports.append(f"127.0.0.1:{agent.port}")
        dead = f"127.0.0.1:{free_port()}"
        sources = [
            NvgpuSource([ports[0], dead, ports[1]]),
            NodeInfoSource([ports[2]], password=PASSWORD),
        ]
        settings = {"hub__get_status_password": PASSWORD}
        hub = opened.enter_context(ThreadedHub(tmp_path, sources, **settings))
        hub.join_and_report(snapshot_now("beta", gpu(0)))

        def names() -> list[str]:
            nodes = msgspec.json.decode(hub.request("GET", "/get-status").body)["Nodes"]
            return [node["hostname"] for node in nodes]

        wait_until(lambda: names() == ["zeta", dead, "alpha", "mid", "beta"])
        cluster = msgspec.json.decode(hub.request("GET", "/cluster_status").body)
        found = [entry.get("hostname", entry.get("error")) for entry in cluster]
        assert found == ["zeta", "Host not available", "alpha", "mid", "beta"]


def test_command_lines_depend_on_the_role_of_the_viewer(hub: ThreadedHub) -> None:
    def command(token: str | None) -> Any:
        response = hub.request("GET", "/cluster_status", token=token)
        return msgspec.json.decode(response.body)[1]["gpus"][0]["cmd"]

    assert command(None) == "python"
    assert command(hub.token("admin")) == "serve.py"
    assert b"serve.py" not in hub.request("GET", "/get-status").body
    assert b"serve.py" not in post(hub, PASSWORD).body
    assert SECRET.encode() in hub.request("GET", "/get-status", token=hub.token("admin")).body


def test_a_hub_that_is_not_a_node_answers_404(hub: ThreadedHub) -> None:
    response = hub.request("GET", "/gpu_status")
    assert (response.status, error_code(response)) == (404, "not_a_node")


def test_a_hub_that_is_a_node_answers_as_an_agent_does(tmp_path: Path) -> None:
    own: Source = SelfSource(lambda _: snapshot_now("here", BUSY), 0.1)
    with ThreadedHub(tmp_path, [own]) as running:
        wait_until(lambda: running.request("GET", "/gpu_status").status != 503)
        node = decode_gpu_status(running.request("GET", "/gpu_status").body, NOON)
    assert (node.name, len(node.gpus)) == ("here", 1)


def test_a_hub_whose_own_driver_fails_answers_with_the_reason(tmp_path: Path) -> None:
    failed = CollectorRun(name="nvidia", outcome="failed", seconds=0.1, detail="do not match")
    own: Source = SelfSource(lambda _: replace(snapshot_now("here"), runs=(failed,)), 0.1)
    with ThreadedHub(tmp_path, [own]) as running:
        wait_until(lambda: error_code(running.request("GET", "/gpu_status")) == "driver_failed")
        response = running.request("GET", "/gpu_status")
    assert (response.status, b"do not match" in response.body) == (503, True)


def test_the_main_node_is_replaced_with_the_password_or_as_a_viewer(hub: ThreadedHub) -> None:
    for response in (post(hub, PASSWORD), hub.request("GET", "/get-status")):
        assert response.status == 200
        output = msgspec.json.decode(response.body)["Nodes"]
        assert [(each["hostname"], each["status"]) for each in output] == [
            ("gpu03", False),
            ("gpu01", True),
            ("gpu02", True),
        ]
        assert output[0] == {"gpus": [], "hostname": "gpu03", "status": False, "version": ""}
        kinds = [isinstance(each, Snapshot) for each in read_main_status(response.body)]
        assert kinds == [False, True, True]


@pytest.mark.parametrize("value", [{}, {"passwd": None}, [], "x"])
def test_an_invalid_password_body_is_a_client_error(hub: ThreadedHub, value: Any) -> None:
    response = hub.request_json("POST", "/get-status", value)
    assert (response.status, error_code(response)) == (400, "bad_body")


def test_without_a_password_nothing_is_served_and_there_is_no_default_password(
    tmp_path: Path,
) -> None:
    with ThreadedHub(tmp_path) as running:
        for response in (
            post(running, "8888"),
            post(running, ""),
            running.request("GET", "/get-status"),
        ):
            assert (response.status, error_code(response)) == (404, "not_served")


def test_guessing_passwords_is_throttled(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__get_status_password=PASSWORD) as running:
        wrong = [post(running, str(number)) for number in range(12)]
        assert [each.status for each in wrong] == [403] * 10 + [429] * 2
        assert error_code(wrong[0]) == "bad_password"
        assert post(running, PASSWORD).status == 429


def test_the_right_password_is_never_throttled(hub: ThreadedHub) -> None:
    assert {post(hub, PASSWORD).status for _ in range(30)} == {200}


def test_they_require_a_viewer(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path, hub__get_status_password=PASSWORD) as running:
        joining = running.token("join")
        for path in ("/gpu_status", "/cluster_status", "/get-status"):
            assert running.request("GET", path, token=joining).status in (401, 403)
            assert running.request("GET", path, token="fsmi_unknown").status == 401
