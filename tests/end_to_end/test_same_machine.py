"""An agent beside an nvgpu agent, in network namespaces: one node, if both are on one machine."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from fleet_smi.model.fleet import NodeView
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import AgentMachine, Lab
from tests.machines import wait_until
from tests.network_namespaces import NetworkHost, network

HUB = "http://hub:7070"


class PolledHub:
    """A hub that polls an nvgpu agent on the host gpu01."""

    def __init__(self, lab: Lab, host: NetworkHost, runtime: str) -> None:
        self._lab, self._host, self._state = lab, host, lab.folder / "hub"
        settings = lab.folder / "fleet-smi.toml"
        settings.write_text('[hub]\nnvgpu = ["gpu01:1080"]\nnvgpu_interval = "1s"\n')
        self._env = os.environ | {"XDG_RUNTIME_DIR": runtime}
        self._env["FLEET_SMI_CLIENT_TOKEN"] = self.new_token("viewer")
        flags = ("--listen", ":7070", "--state", str(self._state), "--config", str(settings))
        log, prefix = lab.folder / "hub-log", host.command_prefix
        lab.start("hub", *flags, env=self._env, log=log, command_prefix=prefix)

    def new_token(self, role: str) -> str:
        return self._run("hub", "token", "add", "--role", role, "--state", str(self._state)).strip()

    def sees(self, check: Callable[[dict[str, NodeView]], bool]) -> bool:
        """Whether its nodes, by id, are as they should be; false until it answers."""
        output = self._run("nodes", "--hub", HUB, "--json")
        if not output:
            return False
        nodes = msgspec.json.decode(output, type=dict[str, object])["nodes"]
        return check({node.node_id: node for node in msgspec.convert(nodes, list[NodeView])})

    def _run(self, *arguments: str) -> str:
        prefix = self._host.command_prefix
        return run_fleet_smi(*arguments, env=self._env, command_prefix=prefix).stdout


def test_an_agent_is_one_node_with_the_older_tool_on_its_own_machine_only(
    sim_lib: Path, tmp_path: Path
) -> None:
    with (
        network("hub", "gpu01", "mallory") as hosts,
        tempfile.TemporaryDirectory(prefix="t-") as runtime,
    ):
        lab = Lab(tmp_path, sim_lib)
        try:
            hub = PolledHub(lab, hosts["hub"], runtime)
            join = ("--to", HUB, "--join", hub.new_token("join"))
            older, own, other = (AgentMachine(lab, name) for name in ("older", "gpu01", "mallory"))
            prefix = hosts["gpu01"].command_prefix
            older.start_agent("--serve", ":1080", "--insecure-open", command_prefix=prefix)
            wait_until(lambda: hub.sees(lambda nodes: nodes.keys() == {"nvgpu-gpu01"}))
            # A machine of the same name, with the same GPUs.
            other.env["FLEET_SMI_NODE_NAME"] = "gpu01"
            other.start_agent(*join, command_prefix=hosts["mallory"].command_prefix)
            wait_until(lambda: hub.sees(lambda nodes: len(nodes) == 2))
            own.start_agent(*join, command_prefix=prefix)
            wait_until(lambda: hub.sees(lambda nodes: len(nodes) == 3 or is_joined(nodes)))
            wait_until(lambda: hub.sees(is_joined))
        finally:
            lab.close()


def is_joined(nodes: dict[str, NodeView]) -> bool:
    """Whether both agents are listed, and the older tool is not."""
    return [node.via for node in nodes.values()] == ["push", "push"]
