"""A hub and five nodes in separate network namespaces, one per transport."""

import contextlib
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fleet_smi.model.fleet import NodeView
from tests.cli.program import run_fleet_smi
from tests.end_to_end.programs import AgentMachine, Lab
from tests.machines import wait_until
from tests.network_namespaces import NetworkHost, network
from tests.sshd import SshNetwork, find_sshd

TRANSPORTS = {"push1": "push", "push2": "push", "pull1": "pull", "files1": "files", "ssh1": "ssh"}
INTERVAL_SECONDS = 0.5
HUB = "http://hub:7070"


class Fleet:
    """The hub, its nodes, and a user on another host."""

    def __init__(
        self, lab: Lab, hosts: dict[str, NetworkHost], ssh: SshNetwork, runtime: Path
    ) -> None:
        self.hosts = hosts
        self.shared = lab.folder / "shared"
        self.nodes = {name: AgentMachine(lab, name) for name in TRANSPORTS}
        self._lab = lab
        self._ssh = ssh
        self._state = str(lab.folder / "hub")
        self._token = lab.folder / "serve-token"
        self._env = self.nodes["push1"].env | {
            "XDG_RUNTIME_DIR": str(runtime),
            "FLEET_SMI_HUB_SSH_CONFIG": str(ssh.config),
        }

    def begin(self) -> None:
        """Start everything."""
        self.shared.mkdir()
        self._token.write_text(secrets.token_hex(16))
        self._token.chmod(0o600)
        for name in ("ssh1", "files1"):
            self._let_in_by_ssh(name)
        self._env["FLEET_SMI_CLIENT_TOKEN"] = self._new_token("viewer")
        self._start_hub()
        join = self._new_token("join")
        for name in ("push1", "push2"):
            self._start_agent(name, "--to", HUB, "--join", join)
        self._start_agent("pull1", "--serve", ":7071", "--serve-token-file", str(self._token))
        self._start_agent("files1", "--drop", str(self.shared))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command on the user's host."""
        return run_fleet_smi(
            *arguments, env=self._env, command_prefix=self.hosts["desk"].command_prefix
        )

    def look(self) -> dict[str, NodeView]:
        """Return the hub's nodes by name."""
        done = self.run("nodes", "--hub", HUB, "--json")
        assert done.returncode == 0, done.stderr
        nodes = msgspec.json.decode(done.stdout, type=dict[str, list[NodeView]])["nodes"]
        return {node.name: node for node in nodes}

    def reporting(self) -> set[str]:
        """Return the names of reporting nodes; empty until the hub answers."""
        with contextlib.suppress(AssertionError):
            return {name for name, node in self.look().items() if not node.silent}
        return set()

    def sees_silence(self, name: str) -> bool:
        """Whether the node is silent, which it is never before it has missed three intervals."""
        node = self.look()[name]
        assert node.age_seconds is not None
        assert node.interval_seconds is not None
        # Not the reverse: after them, the hub may have been too busy to receive a report.
        assert node.age_seconds > 3 * node.interval_seconds or not node.silent
        return node.silent

    def offered(self) -> set[str]:
        """Return the nodes with an offered GPU."""
        done = self.run("free", "--hub", HUB)
        return {gpu.partition(":")[0] for gpu in done.stdout.strip().split(",")}

    def _start_hub(self) -> None:
        intervals = {"PULL": INTERVAL_SECONDS, "FILES": INTERVAL_SECONDS, "SSH": 1.0}
        env = self._env | {
            **{f"FLEET_SMI_HUB_{way}_INTERVAL": str(each) for way, each in intervals.items()},
            "FLEET_SMI_HUB_PULL_TOKEN_FILE": str(self._token),
        }
        ways = ("--pull", "pull1:7071", "--files", str(self.shared), "--ssh", "ssh1")
        flags = ("--listen", ":7070", "--state", self._state, *ways)
        log, within = self._lab.folder / "hub-log", self.hosts["hub"].command_prefix
        self.hub = self._lab.start("hub", *flags, env=env, log=log, command_prefix=within)

    def _start_agent(self, name: str, *flags: str) -> None:
        interval = ("--interval", str(INTERVAL_SECONDS))
        self.nodes[name].start_agent(
            *interval, *flags, command_prefix=self.hosts[name].command_prefix
        )

    def _new_token(self, role: str) -> str:
        arguments = ("hub", "token", "add", "--role", role, "--state", self._state)
        done = run_fleet_smi(
            *arguments, env=self._env, command_prefix=self.hosts["hub"].command_prefix
        )
        return done.stdout.strip()

    def _let_in_by_ssh(self, name: str) -> None:
        host, env = self.hosts[name], self.nodes[name].env
        remote_env = {key: env[key] for key in ("FLEET_SMI_SIM", "LD_LIBRARY_PATH")}
        remote_env["PATH"] = f"{self._lab.driver}:/usr/bin:/bin"
        server = self._ssh.start_server(
            env=remote_env, address=host.address, command_prefix=host.command_prefix
        )
        self._ssh.add_host(name, server)


@pytest.fixture(scope="module")
def running(sim_lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One network for all tests; each restores it."""
    find_sshd()
    folder = tmp_path_factory.mktemp("network")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network("hub", "desk", *TRANSPORTS))
        # Not below the folder of the test: the name of a socket has not so much room.
        runtime = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="t-")))
        lab = Lab(folder, sim_lib)
        stack.callback(lab.close)
        ssh = SshNetwork(folder)
        stack.callback(ssh.close)
        made = Fleet(lab, hosts, ssh, runtime)
        made.begin()
        yield made
        assert made.hub.terminate()[0] == 0
        assert list(runtime.iterdir()) == []


@pytest.fixture
def fleet(running: Fleet) -> Fleet:
    """The network, once every node reports."""
    wait_until(lambda: running.reporting() == set(TRANSPORTS))
    return running


def test_five_nodes_on_four_transports_are_in_one_table(fleet: Fleet) -> None:
    table = fleet.run("--hub", HUB).stdout
    assert "5 of 5 nodes" in table
    for name in TRANSPORTS:
        assert f"{name} · 2 × H100 80GB" in table
    rows = [line.split() for line in fleet.run("nodes", "--hub", HUB).stdout.splitlines()]
    transports = {row[0]: row[row.index("ago") + 1] for row in rows if row and row[0] in TRANSPORTS}
    assert transports == TRANSPORTS
    assert len({node.node_id for node in fleet.look().values()}) == 5


@pytest.mark.parametrize("name", ["push1", "pull1", "ssh1"])
def test_a_disconnected_node_is_silent_and_not_offered_until_it_returns(
    fleet: Fleet, name: str
) -> None:
    assert fleet.offered() == set(TRANSPORTS)
    fleet.hosts[name].disconnect()
    try:
        wait_until(lambda: fleet.sees_silence(name))
        assert fleet.offered() == set(TRANSPORTS) - {name}
        assert [gpu.verdict.state for gpu in fleet.look()[name].gpus] == ["unknown"] * 2
        assert f"{name} · 2 × H100 80GB · SILENT for" in fleet.run("--hub", HUB).stdout
    finally:
        fleet.hosts[name].reconnect()
    wait_until(lambda: fleet.reporting() == set(TRANSPORTS))
    assert fleet.offered() == set(TRANSPORTS)
    assert fleet.look()[name].trouble is None
    assert fleet.look()[name].missing_reports == 0


def test_samples_of_a_disconnected_node_are_sent_later(fleet: Fleet) -> None:
    before = fleet.look()["push2"].sequence
    fleet.hosts["push2"].disconnect()
    try:
        wait_until(lambda: fleet.sees_silence("push2"))
    finally:
        fleet.hosts["push2"].reconnect()
    wait_until(lambda: fleet.look()["push2"].sequence > before + 3)
    assert fleet.look()["push2"].missing_reports == 0


def test_without_a_hub_hosts_are_read_over_ssh(fleet: Fleet) -> None:
    done = fleet.run("--ssh", "ssh1,files1")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 nodes" in done.stdout
    assert all(f"{name} · 2 × H100 80GB" in done.stdout for name in ("ssh1", "files1"))


def test_without_a_hub_an_unreachable_host_is_listed_with_the_others(fleet: Fleet) -> None:
    done = fleet.run("--ssh", "ssh1,nobody")
    assert "1 of 2 nodes" in done.stdout
    assert "nobody · NEVER REPORTED" in done.stdout


def test_without_a_hub_a_shared_folder_is_read(fleet: Fleet) -> None:
    done = fleet.run("--dir", str(fleet.shared))
    assert done.returncode == 0, done.stderr
    assert "files1 · 2 × " in done.stdout
    assert fleet.run("free", "--dir", str(fleet.shared)).stdout == "files1:0,files1:1\n"
