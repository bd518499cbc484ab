"""Two machines with one machine-id, by every transport; and one machine that is rebooted."""

import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet_smi.model.fleet import NodeView
from fleet_smi.wire.report import decode_report
from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi, run_json
from tests.end_to_end.programs import (
    AgentMachine,
    FleetSmiProcess,
    Lab,
    LoopbackHub,
    LoopbackMachine,
)
from tests.machines import wait_until
from tests.ports import free_port
from tests.sshd import SshNetwork

MACHINE_ID = "0123456789abcdef0123456789abcdef"
NAMES = ("gpu01", "gpu02")


class ClonedMachine(LoopbackMachine):
    """A machine with the machine-id of another, and a boot of its own."""

    def __init__(self, lab: Lab, name: str) -> None:
        super().__init__(lab, name)
        root = Path(self.env["FLEET_SMI_NODE_ROOT"])
        (root / "etc/machine-id").write_text(f"{MACHINE_ID}\n")
        (root / "proc").unlink()
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        for file in ("stat", "loadavg", "meminfo", "uptime", "self"):
            (root / "proc" / file).symlink_to(f"/proc/{file}")
        self._boot_id = root / "proc/sys/kernel/random/boot_id"
        self._stat = root / "proc/stat"
        self._new_boot_id()

    def reboot(self) -> None:
        """Give it another boot that begins now, for the next start of its agent."""
        self._new_boot_id()
        self._stat.unlink()
        self._stat.write_text(f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {time.time():.0f}\n")

    def _new_boot_id(self) -> None:
        self._boot_id.write_text(f"{secrets.token_hex(16)}\n")


def push_with_a_copied_credential(lab: Lab) -> LoopbackHub:
    hub = LoopbackHub(lab)
    first, second = (ClonedMachine(lab, name) for name in NAMES)
    first.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("gpu01") > 0)
    second.state.mkdir(mode=0o700)
    for file in first.state.glob("*"):
        if file.is_file() and "lock" not in file.name:
            shutil.copy(file, second.state)
    second.start_agent("--to", hub.url)
    return hub


def push_with_two_credentials(lab: Lab) -> LoopbackHub:
    hub = LoopbackHub(lab)
    for name in NAMES:
        ClonedMachine(lab, name).start_agent(*hub.join_flags())
        wait_until(lambda: hub.latest_sequence(name) > 0)  # noqa: B023  # called before the next
    return hub


def pull(lab: Lab) -> LoopbackHub:
    targets = [f"127.0.0.1:{free_port()}" for _ in NAMES]
    for name, target in zip(NAMES, targets, strict=True):
        ClonedMachine(lab, name).start_agent("--serve", target)
    return LoopbackHub(lab, "--pull", ",".join(targets))


def files(lab: Lab) -> LoopbackHub:
    folder = lab.folder / "shared"
    folder.mkdir()
    for name in NAMES:
        ClonedMachine(lab, name).start_agent("--drop", str(folder))
    return LoopbackHub(lab, "--files", str(folder))


@pytest.mark.parametrize(
    "start", [push_with_a_copied_credential, push_with_two_credentials, pull, files]
)
def test_both_machines_are_listed_and_told_apart(
    lab: Lab, start: Callable[[Lab], LoopbackHub]
) -> None:
    hub = start(lab)
    wait_until(lambda: hub.reporting() == set(NAMES))
    began = {name: hub.latest_sequence(name) for name in NAMES}
    wait_until(lambda: all(hub.latest_sequence(name) > began[name] + 20 for name in NAMES))
    found = wait_until_reporting(hub)
    assert_told_apart(found)
    wait_until(lambda: nodes_screen(hub).count("systemd-machine-id-setup") == 2)
    # A restart of the hub changes none of it.
    ids = {name: node.node_id for name, node in found.items()}
    hub.program.terminate()
    hub.start()
    wait_until(lambda: hub.reporting() == set(NAMES))
    wait_until(lambda: all(node.trouble for node in hub.fleet().nodes))
    assert {node.name: node.node_id for node in hub.fleet().nodes} == ids


def wait_until_reporting(hub: LoopbackHub) -> dict[str, NodeView]:
    """Return the nodes at a moment when none is silent: on a busy machine one may be at times."""
    found: dict[str, NodeView] = {}

    def are_reporting() -> bool:
        nodes = hub.fleet().nodes
        found.clear()
        found.update((node.name, node) for node in nodes if not node.silent)
        return len(found) == len(nodes) == len(NAMES)

    wait_until(are_reporting)
    return found


def nodes_screen(hub: LoopbackHub) -> str:
    return run_fleet_smi("nodes", "--hub", hub.url, env=hub.env).stdout


def assert_told_apart(found: dict[str, NodeView]) -> None:
    assert sorted(found) == list(NAMES)
    for name, node in found.items():
        assert [gpu.uuid for gpu in node.gpus] == [f"GPU-{name}-0", f"GPU-{name}-1"]
        assert {gpu.verdict.state for gpu in node.gpus} == {"free"}
        assert "has the same machine-id as" in (node.trouble or "")


def test_both_machines_are_listed_without_a_hub(
    lab: Lab, ssh_network: SshNetwork, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    machines = [ClonedMachine(lab, name) for name in reversed(NAMES)]
    for machine in machines:
        drop(machine, folder)
        env = {
            key: value
            for key, value in machine.env.items()
            if key.startswith(("FLEET_SMI_", "LD_LIBRARY"))
        } | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/nonexistent"}
        ssh_network.add_host(machine.name, ssh_network.start_server(env=env))
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    by_ssh = env | {"FLEET_SMI_HUB_SSH_CONFIG": str(ssh_network.config)}
    for flags, environment in (
        (("--dir", str(folder)), env),
        (("--ssh", ",".join(NAMES)), by_ssh),
    ):
        nodes = run_json(*flags, env=environment)["nodes"]
        ids = [node["node_id"] for node in nodes]
        assert ids[1].startswith(f"{ids[0]}@gpu02")
        assert sorted(node["name"] for node in nodes) == list(NAMES)
        for node in nodes:
            assert [gpu["verdict"]["state"] for gpu in node["gpus"]] == ["free", "free"]
            assert "has the same machine-id as" in node["trouble"]


def drop(machine: AgentMachine, folder: Path) -> None:
    command = [sys.executable, "-m", "fleet_smi", "agent", "--drop", str(folder), "--once"]
    subprocess.run(command, env=machine.env, check=True, capture_output=True)


def test_a_machine_that_is_rebooted_with_another_gpu_stays_one(lab: Lab) -> None:
    hub, machine = LoopbackHub(lab), ClonedMachine(lab, "gpu01")
    flags = hub.join_flags()

    def restart(agent: FleetSmiProcess) -> FleetSmiProcess:
        agent.terminate()
        # No machine is up again within three intervals.
        wait_until(lambda: "gpu01" not in hub.reporting())
        machine.reboot()
        return machine.start_agent(*flags)

    agent = machine.start_agent(*flags)
    wait_until(lambda: "gpu01" in hub.reporting())
    (before,) = hub.fleet().nodes
    agent = restart(agent)
    wait_until(lambda: hub.fleet().nodes[0].boot_id != before.boot_id)
    machine.set_scenario(Scenario(gpus=[SimGpu(uuid=f"GPU-new-{at}") for at in range(2)]))
    restart(agent)
    wait_until(lambda: any(gpu.uuid == "GPU-new-0" for gpu in hub.fleet().nodes[0].gpus))
    first = hub.latest_sequence("gpu01")
    wait_until(lambda: hub.latest_sequence("gpu01") > first + 10)
    (node,) = hub.fleet().nodes
    assert (node.node_id, node.trouble) == (before.node_id, None)


def test_a_file_or_a_pulled_agent_cannot_report_for_a_node_with_a_credential(lab: Lab) -> None:
    folder, target = lab.folder / "shared", f"127.0.0.1:{free_port()}"
    folder.mkdir()
    hub = LoopbackHub(lab, "--files", str(folder), "--pull", target)
    node, forger = ClonedMachine(lab, "gpu01"), ClonedMachine(lab, "mallory")
    node.set_scenario(Scenario(gpus=[SimGpu(uuid="GPU-1", memory_used=40 << 30)]))
    node.start_agent(*hub.join_flags())
    wait_until(lambda: hub.latest_sequence("gpu01") > 0)
    # It knows all that the node reports, its boot id and its GPU too.
    root = Path(node.env["FLEET_SMI_NODE_ROOT"])
    forger.env["FLEET_SMI_NODE_ROOT"] = str(root)
    forger.set_scenario(Scenario(gpus=[SimGpu(uuid="GPU-1")]))
    forger.start_agent("--drop", str(folder), "--serve", target)

    def refused() -> dict[str, NodeView]:
        found = {each.name.partition(".")[0]: each for each in hub.fleet().nodes}
        return {name: each for name, each in found.items() if "credential" in (each.trouble or "")}

    wait_until(lambda: refused().keys() == {"127", "mallory"})
    found = refused() | {each.name: each for each in hub.fleet().nodes}
    for sender in ("127", "mallory"):
        assert (found[sender].gpus, found[sender].silent) == ((), True)
    assert found["gpu01"].trouble is None
    assert [gpu.verdict.state for gpu in found["gpu01"].gpus] != ["free"]


def give_own_machine_id(machine: ClonedMachine) -> None:
    """`rm -f /etc/machine-id … && systemd-machine-id-setup` on that machine."""
    root = Path(machine.env["FLEET_SMI_NODE_ROOT"])
    (root / "etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")


@pytest.mark.parametrize("credential", ["copied", "own"])
def test_the_remedy_that_the_hub_gives_makes_two_nodes_and_loses_nothing(
    lab: Lab, credential: str
) -> None:
    hub, agents = LoopbackHub(lab), {}
    machines = {name: ClonedMachine(lab, name) for name in NAMES}
    for name, machine in machines.items():
        if name == "gpu02" and credential == "copied":
            machine.state.mkdir(mode=0o700)
            shutil.copy(machines["gpu01"].state / "credential.json", machine.state)
        drop = ("--interval", "0.5", "--drop", str(machine.drop))
        agents[name] = machine.start_agent(*drop, *hub.join_flags())
        wait_until(lambda: hub.latest_sequence(name) > 0)  # noqa: B023  # called before the next
    wait_until(lambda: hub.reporting() == set(NAMES))
    wait_until(lambda: all(node.trouble for node in hub.fleet().nodes))
    # With a copied credential, either of the two is the clone for the hub.
    (entry,) = [node for node in hub.fleet().nodes if "@" in node.node_id]
    remedy = f"`fleet-smi nodes remove {entry.node_id}`"
    wait_until(lambda: all(remedy in (node.trouble or "") for node in hub.fleet().nodes))
    clone = machines[entry.name]
    # It buffers samples under the id that it shares, and then gets its own.
    hub.program.terminate()
    wait_until(lambda: any((clone.state / "spool").glob("*.samples")))
    buffered = clone.latest_sequence()
    wait_until(lambda: clone.latest_sequence() > buffered + 10)
    agents[entry.name].terminate()
    latest = decode_report(next(clone.drop.glob("*.fsmi")).read_bytes()).snapshots[-1]
    give_own_machine_id(clone)
    (clone.state / "credential.json").unlink()
    hub.start()
    clone.start_agent("--interval", "0.5", *hub.join_flags())
    wait_until(lambda: any(is_new_entry(node, entry) for node in hub.fleet().nodes))
    removed = run_fleet_smi("nodes", "remove", entry.node_id, "--hub", hub.url, env=hub.env)
    assert removed.returncode == 0, removed.stderr
    wait_until(lambda: len(hub.fleet().nodes) == 2 and hub.reporting() == set(NAMES))
    began = {name: hub.latest_sequence(name) for name in NAMES}
    wait_until(lambda: all(hub.latest_sequence(name) > began[name] + 10 for name in NAMES))
    wait_until(lambda: all(is_healthy(node) for node in hub.fleet().nodes))
    wait_until(lambda: not any((clone.state / "spool").glob("*.samples")))
    hub.program.terminate()
    runs = {run.run_id: run for run in hub.stored_nodes()[entry.name].sequences.runs}
    received = runs[latest.run_id or ""]
    assert (len(received.firsts), received.given_up) == (1, 0)
    assert received.firsts[0] <= buffered
    assert received.lasts == [latest.sequence]


def is_healthy(node: NodeView) -> bool:
    states = {gpu.verdict.state for gpu in node.gpus}
    return (node.trouble, node.missing_reports, states) == (None, 0, {"free"})


def is_new_entry(node: NodeView, old: NodeView) -> bool:
    return node.name == old.name and node.node_id != old.node_id and not node.silent


def test_a_clone_that_cannot_join_is_not_told_to_revoke_the_healthy_node(lab: Lab) -> None:
    hub = LoopbackHub(lab)
    first, clone = ClonedMachine(lab, "gpu01"), ClonedMachine(lab, "gpu01-copy")
    flags = hub.join_flags()
    # It is not silent between two reports, however busy the machine of this test is.
    first.start_agent("--interval", "30", *flags)
    wait_until(lambda: "gpu01" in hub.reporting())
    # A copy of a machine that was running, without its state: nothing but its GPUs tells it apart.
    clone.env["FLEET_SMI_NODE_ROOT"] = first.env["FLEET_SMI_NODE_ROOT"]
    clone.env["FLEET_SMI_NODE_NAME"] = "gpu01"
    agent = clone.start_agent(*flags)
    wait_until(lambda: "already has a credential" in agent.output)
    refused = run_fleet_smi("nodes", "--hub", hub.url, env=hub.env).stdout
    for text in (agent.output, " ".join(refused.split())):
        assert "systemd-machine-id-setup" in text
        assert "start the agent with the line that `fleet-smi hub join-command` prints" in text
        assert "token revoke" not in text
    assert "gpu01" in hub.reporting()
