"""The migration guide from cluster-smi: its steps work."""

import shlex
from pathlib import Path

from fleet_smi.compat.cluster_smi.codec import decode_cluster, decode_node
from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.compat.cluster_smi.messages import TIME, device, encode_message, node
from tests.compat.cluster_smi.zeromq_peers import ZeromqClient, ZeromqNode, ZeromqRouter
from tests.compat.migration_guide import (
    migration_commands,
    migration_section,
    write_section_settings,
)
from tests.docs.pages import PROJECT
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import wait_until
from tests.ports import free_port
from tests.sim.fixtures import Simulated

TITLE = "cluster-smi"
INSTALL = "sudo /opt/fleet-smi/bin/pip install 'fleet-smi[zmq]'"
HUB = "fleet-smi hub"
AGENT = "fleet-smi agent --cluster-smi oldhub:9080"
ALIAS = "alias cluster-smi='fleet-smi like cluster-smi'"
TABLE = "fleet-smi like cluster-smi -p -t -d"
HERE = "fleet-smi like cluster-smi --here"


def test_every_command_of_the_section_is_run_here_and_no_other() -> None:
    assert migration_commands(TITLE) == [INSTALL, HUB, AGENT, ALIAS, TABLE, HERE]


def test_the_extra_brings_zeromq() -> None:
    project = (PROJECT / "pyproject.toml").read_text()
    assert '\nzmq = ["pyzmq' in project.partition("[project.optional-dependencies]")[2]
    assert shlex.split(INSTALL)[-1] == "fleet-smi[zmq]"


def test_side_by_side_the_hub_is_a_router_and_polls_another(lab: Lab, tmp_path: Path) -> None:
    ticks = iter(range(1, 100_000))

    def cluster() -> list[bytes]:
        output = node(device(), Name="behind-a-router", Time=[TIME + next(ticks), 0])
        return [encode_message({"Nodes": [output]})]

    with ZeromqRouter(cluster) as router:
        nodes, clients = free_port(), free_port()
        places = {
            ":9080": f"127.0.0.1:{nodes}",
            ":9081": f"127.0.0.1:{clients}",
            "oldhub:9081": f"127.0.0.1:{router.clients_port}",
        }
        settings = write_section_settings(TITLE, places, tmp_path)
        hub = LoopbackHub(lab, "--config", settings)
        with ZeromqNode(f"tcp://127.0.0.1:{nodes}") as pushing:

            def both() -> bool:
                pushing.push(encode_message(node(device(), Name="pushing")))
                return hub.reporting() == {"pushing", "behind-a-router"}

            wait_until(both)

    def output() -> set[str]:
        with ZeromqClient(f"tcp://127.0.0.1:{clients}") as client:
            return {one.name for one in decode_cluster(client.request())}

    wait_until(lambda: output() == {"pushing", "behind-a-router"})


def test_an_agent_pushes_to_the_old_router(lab: Lab, simulated: Simulated) -> None:
    with ZeromqRouter(lambda: [b""]) as router:
        message = AGENT.replace("oldhub:9080", f"127.0.0.1:{router.nodes_port}").split()[1:]
        env = simulated(Scenario(gpus=[SimGpu()])) | {"FLEET_SMI_NODE_NAME": "gpu07"}
        lab.start(*message, env=env, log=lab.folder / "log")
        wait_until(lambda: bool(router.pushed))
    assert decode_node(router.pushed[0]).name == "gpu07"


def test_its_command_line_works(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(), SimGpu()]))
    assert shlex.split(ALIAS)[-1] == f"cluster-smi={HERE.removesuffix(' --here')}"
    for command in (TABLE, HERE):
        shown = run_fleet_smi(*command.split()[1:], env=env).stdout
        assert "| Node " in shown
        assert "| 0:NVIDIA" in shown
    assert "`-color=false`" in migration_section(TITLE)
