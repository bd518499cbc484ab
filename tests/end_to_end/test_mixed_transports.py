"""Nodes of all compatible systems in one table, each with its transport and limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.model.fleet import NodeView
from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until
from tests.ports import free_port

PASSWORD = "a-password-of-this-test"
WAYS = {
    "own": "push",
    "old-cluster": "cluster-smi",
    "old-nvgpu": "nvgpu",
    "old-monitor": "node_info",
    "old-gpustat": "files",
}


@pytest.fixture
def hub(lab: Lab, tmp_path: Path) -> Iterator[LoopbackHub]:
    """A hub with one native agent and one node per foreign protocol."""
    pushed, polled, watched = free_port(), free_port(), free_port()
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    folder = tmp_path / "status-gpu"
    folder.mkdir()
    settings = tmp_path / "fleet-smi.toml"
    settings.write_text(
        f"""
[hub]
cluster_smi_nodes = "127.0.0.1:{pushed}"
nvgpu = ["127.0.0.1:{polled}"]
nvgpu_interval = "1s"
node_info = ["127.0.0.1:{watched}"]
node_info_interval = "1s"
node_info_password_file = "{password}"
files = ["{folder}"]
files_interval = "1s"
"""
    )
    hub = LoopbackHub(lab, "--config", str(settings))
    nodes = {name: LoopbackMachine(lab, name) for name in WAYS}
    nodes["own"].start_agent(*hub.join_flags())
    nodes["old-cluster"].start_agent("--cluster-smi", f"127.0.0.1:{pushed}")
    nodes["old-nvgpu"].start_agent("--serve", f"127.0.0.1:{polled}")
    nodes["old-monitor"].env |= {"FLEET_SMI_AGENT_GET_STATUS_PASSWORD_FILE": str(password)}
    nodes["old-monitor"].start_agent("--serve", f"127.0.0.1:{watched}")
    nodes["old-gpustat"].start_agent("--drop", str(folder), "--drop-format", "gpustat")
    yield hub
    hub.program.kill()


def test_nodes_of_all_transports_are_in_one_table_with_their_limits(hub: LoopbackHub) -> None:
    found: dict[str, NodeView] = {}

    def all_report() -> bool:
        # In one view: on a busy machine, one may be silent for a moment when others are not.
        found.clear()
        found.update({node.name: node for node in hub.fleet().nodes})
        return {name for name, node in found.items() if not node.silent} == set(WAYS)

    wait_until(all_report)
    assert {name: node.via for name, node in found.items()} == WAYS
    assert all(len(node.gpus) == 2 for node in found.values())
    assert found["own"].limits == ()
    table = run_fleet_smi("--hub", hub.url, env=hub.env).stdout
    for name in set(WAYS) - {"own"}:
        assert name in table
        assert " ".join(found[name].limits[0].split()[:3]) in table
    assert states(found["own"]) == {"free"}
    # nvgpu never reports memory: it is judged by processes and load, and the reason says so.
    assert states(found["old-nvgpu"]) == {"free"}
    assert all("as reported by nvgpu" in gpu.verdict.reason for gpu in found["old-nvgpu"].gpus)


def states(node: NodeView) -> set[str]:
    return {gpu.verdict.state for gpu in node.gpus}


@pytest.mark.parametrize("older_first", [False, True], ids=["agent first", "older tools first"])
def test_a_machine_by_an_agent_and_by_older_tools_is_one_node(
    lab: Lab, tmp_path: Path, older_first: bool
) -> None:
    pushed, polled, folder = free_port(), free_port(), tmp_path / "status-gpu"
    folder.mkdir()
    settings = tmp_path / "fleet-smi.toml"
    settings.write_text(
        f"""
[hub]
cluster_smi_nodes = "127.0.0.1:{pushed}"
nvgpu = ["127.0.0.1:{polled}"]
nvgpu_interval = "1s"
files = ["{folder}"]
files_interval = "1s"
"""
    )
    hub, machine = LoopbackHub(lab, "--config", str(settings)), LoopbackMachine(lab, "gpu01")
    # Full, and no process is listed: nvgpu, which reports no memory, calls that free.
    machine.set_scenario(
        Scenario(gpus=[SimGpu(uuid=f"GPU-{at}", memory_used=70 << 30) for at in range(2)])
    )
    older = LoopbackMachine(lab, "older-tools-of-gpu01")
    older.env |= {
        key: machine.env[key] for key in ("FLEET_SMI_NODE_ROOT", "FLEET_SMI_NODE_NAME")
    } | {key: value for key, value in machine.env.items() if "SIM" in key}
    flags: tuple[str, ...] = (
        "--cluster-smi",
        f"127.0.0.1:{pushed}",
        "--serve",
        f"127.0.0.1:{polled}",
    )
    flags += ("--drop", str(folder), "--drop-format", "gpustat")

    def start_older_tools() -> None:
        older.start_agent(*flags)
        target = f"127.0.0.1:{polled}"
        wait_until(lambda: all(node.name != target for node in hub.fleet().nodes))

    if older_first:
        start_older_tools()
        wait_until(lambda: len(hub.fleet().nodes) == 3)
    machine.start_agent(*hub.join_flags())
    wait_until(lambda: any(node.via == "push" for node in hub.fleet().nodes))
    if not older_first:
        start_older_tools()
    wait_until(lambda: len(hub.fleet().nodes) == 1)
    assert_one_full_node(hub)
    hub.program.terminate()
    hub.start()
    wait_until(lambda: hub.reporting() == {"gpu01"})
    before = hub.latest_sequence("gpu01")
    wait_until(lambda: hub.latest_sequence("gpu01") > before + 30)
    wait_until(lambda: len(hub.fleet().nodes) == 1)
    assert_one_full_node(hub)


def assert_one_full_node(hub: LoopbackHub) -> None:
    (node,) = hub.fleet().nodes
    assert (node.name, node.via, node.trouble) == ("gpu01", "push", None)
    assert states(node) == {"ghost"}
