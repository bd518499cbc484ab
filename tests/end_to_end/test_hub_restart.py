"""State that survives a hub restart: nodes, their last data, and removals."""

import pytest

from sim.scenario import GIB, Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until


def restart(hub: LoopbackHub, how: str) -> None:
    if how == "kill":
        hub.program.kill()
    else:
        assert hub.program.terminate()[0] == 0
    hub.start()


def remove(hub: LoopbackHub, name: str) -> None:
    """Remove a node as the user who runs the hub."""
    done = run_fleet_smi("nodes", "--hub", hub.url, "remove", name, env=hub.env)
    assert done.returncode == 0, done.stderr


def test_a_silent_node_is_shown_silent_with_its_last_data_after_a_restart(lab: Lab) -> None:
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    node.set_scenario(Scenario(gpus=[SimGpu(uuid="GPU-1", memory_used=7 * GIB)]))
    agent = node.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("node") > 0)
    assert agent.terminate()[0] == 0
    last = hub.latest_sequence("node")
    restart(hub, "end")
    view = hub.node("node")
    assert view is not None
    assert (view.silent, view.sequence, view.via) == (True, last, "push")
    (gpu,) = view.gpus
    assert (gpu.uuid, gpu.memory_used_bytes) == ("GPU-1", 7 * GIB)
    assert gpu.verdict.state == "unknown"
    assert "SILENT" in run_fleet_smi("--hub", hub.url, env=hub.env).stdout


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_removed_node_stays_removed_after_a_restart(lab: Lab, how: str) -> None:
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    agent = node.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("node") > 5)
    assert agent.terminate()[0] == 0
    restart(hub, "end")
    assert hub.node("node") is not None
    remove(hub, "node")
    assert hub.node("node") is None
    restart(hub, how)
    assert hub.node("node") is None


def test_a_node_that_is_removed_while_it_reports_does_not_come_back_by_itself(lab: Lab) -> None:
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    agent = node.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("node") > 5)
    remove(hub, "node")
    wait_until(lambda: "fault=Refused" in agent.output)
    assert hub.node("node") is None
    assert "to join again" in agent.output
