"""A node whose driver hangs: reports go on and the hub shows the fault."""

from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import Lab, LoopbackHub, LoopbackMachine
from tests.machines import wait_until

WELL, HUNG = (
    Scenario(gpus=[SimGpu(uuid="GPU-0", faults=faults), SimGpu(uuid="GPU-1")])
    for faults in ({}, {"PowerUsage": "never"})
)


def test_a_hung_driver_is_reported_while_reports_go_on(lab: Lab) -> None:
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    node.set_scenario(WELL)
    node.start_agent(*hub.join_flags(), "--interval", "0.5")
    wait_until(lambda: hub.fleet().summary.free == 2)

    node.set_scenario(HUNG)
    wait_until(lambda: hub.fleet().summary.broken == 2)
    since = hub.latest_sequence("node")
    wait_until(lambda: hub.latest_sequence("node") > since + 2)
    view = hub.node("node")
    assert view is not None
    assert not view.silent
    assert view.missing_reports == 0

    assert run_fleet_smi("--hub", hub.url, env=hub.env).stdout.count("driver slow: ") >= 2
    wait_until(lambda: "driver not answering since" in reason(hub))
    offer = run_fleet_smi("free", "--hub", hub.url, env=hub.env)
    assert (offer.returncode, offer.stdout) == (1, "")

    node.set_scenario(WELL)
    wait_until(lambda: hub.fleet().summary.free == 2)


def reason(hub: LoopbackHub) -> str:
    view = hub.node("node")
    return "" if view is None else view.gpus[0].verdict.reason
