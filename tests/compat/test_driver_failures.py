"""A driver that does not match its library, in every dialect: an error, and not "no GPU"."""

from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.compat.cluster_smi.encode import encode_cluster
from fleet_smi.compat.cluster_smi.table import TableOptions, render, render_status
from fleet_smi.compat.gpustat import table as gpustat
from fleet_smi.compat.gpustat.codec import GpustatOptions, decode_gpustat
from fleet_smi.compat.node_info.agent_route import get_status_route
from fleet_smi.compat.node_info.codec import encode_main_status
from fleet_smi.compat.nvgpu.agent_route import ROUTES
from fleet_smi.compat.nvgpu.codec import encode_cluster_status
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import CollectorRun, Fault, Snapshot
from fleet_smi.node.outlets.serve import ServeOutlet
from sim.scenario import Scenario, SimGpu
from tests.builders import NOON, gpu, snapshot
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.sim.fixtures import Simulated

REASON = "the driver (590) and its library (550) do not match"
FAILED = CollectorRun(name="nvidia", outcome="failed", seconds=0.1, detail=REASON, fault="mismatch")
BAD_RESPONSE = "Bad response (500: INTERNAL SERVER ERROR)"


def broken(*indexes: int) -> Snapshot:
    """A machine whose driver fails; the kernel lists these GPUs all the same."""
    fault = Fault(kind="mismatch", detail=REASON)
    listed = [gpu(index, fault=fault, processes=None) for index in indexes]
    return snapshot(*listed, runs=(FAILED,))


def view(taken: Snapshot) -> FleetView:
    fleet = FleetState()
    fleet.apply(taken, NOON)
    return fleet.view(NOON)


@pytest.mark.parametrize(
    "command, message",
    [
        (("gpustat",), "gpustat: Error on querying NVIDIA devices: "),
        (("gpustat", "--json"), "gpustat: Error on querying NVIDIA devices: "),
        (("nvgpu", "available"), "nvgpu: cannot query the NVIDIA driver: "),
        (("nvgpu", "list"), "nvgpu: cannot query the NVIDIA driver: "),
        (("cluster-smi",), "cluster-smi: Failed initializing NVML: "),
    ],
)
@pytest.mark.parametrize("listed_by_kernel", [False, True])
def test_on_this_machine_it_is_an_error_as_in_the_older_tool(
    simulated: Simulated,
    tmp_path: Path,
    command: tuple[str, ...],
    message: str,
    listed_by_kernel: bool,
) -> None:
    env = simulated(Scenario(gpus=[SimGpu()], init="mismatch"))
    if listed_by_kernel:
        write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0")
        env |= {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")}
    done = run_fleet_smi("like", *command, "--here", env=env)
    assert_error_line(done, 1, message)
    assert "do not match" in done.stderr


@pytest.mark.parametrize("indexes", [(), (0, 1)])
def test_the_text_of_gpustat_has_the_reason(indexes: tuple[int, ...]) -> None:
    text = gpustat.render(view(broken(*indexes)), GpustatOptions())
    assert text.splitlines()[-1] == f"Error on querying NVIDIA devices: {REASON}"
    (read,) = decode_gpustat(text.encode(), "gpu01", NOON)
    assert isinstance(read, Snapshot)
    assert [run.detail for run in read.runs if run.outcome == "failed"] == [REASON]
    assert [each.index for each in read.gpus] == list(indexes)


def test_the_table_of_cluster_smi_has_the_kind_of_failure() -> None:
    for text in (
        render(view(broken()), TableOptions()),
        render_status(view(broken()), colour=False),
    ):
        assert "| driver mismatch " in text
        assert "no GPU" not in text


def test_clients_of_cluster_smi_show_the_node_as_offline() -> None:
    (node,) = msgspec.msgpack.decode(encode_cluster(view(broken())))["Nodes"]
    assert (node["Name"], node["Time"].timestamp()) == ("gpu01", 0)


def test_a_master_of_nvgpu_has_an_error_in_its_place() -> None:
    (machine,) = msgspec.json.decode(encode_cluster_status(view(broken()).nodes))
    assert machine == {"error": BAD_RESPONSE}


def test_a_main_node_of_gpu_cluster_monitor_shows_it_as_failing() -> None:
    (node,) = msgspec.json.decode(encode_main_status(view(broken())))["Nodes"]
    assert (node["status"], node["gpus"]) == (False, [])


def ask(outlet: ServeOutlet, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    with closing(HTTPConnection("127.0.0.1", outlet.port, timeout=60)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_an_agent_answers_older_masters_with_500_and_the_reason() -> None:
    routes = [*ROUTES, get_status_route("correct horse")]
    with closing(ServeOutlet("127.0.0.1", 0, routes=routes)) as agent:
        agent.publish(broken())
        for method, path, body in (
            ("GET", "/gpu_status", None),
            ("POST", "/get-status", b'{"passwd": "correct horse"}'),
        ):
            status, text = ask(agent, method, path, body)
            assert status == 500
            assert REASON in text
        assert BAD_RESPONSE in ask(agent, "GET", "/cluster_status")[1]
        assert BAD_RESPONSE in ask(agent, "GET", "/")[1]
        # A machine without any GPU has no driver to fail.
        agent.publish(snapshot())
        assert ask(agent, "GET", "/gpu_status")[0] == 200
