"""Run a hub and agents as subprocesses, each on its own simulated machine."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.database import open_database
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.server.tls import read_fingerprint
from fleet_smi.wire.report import decode_report
from sim.scenario import Scenario, SimGpu, scenario_env
from tests.cli.program import run_fleet_smi
from tests.machines import wait_until
from tests.ports import free_port

INTERVAL_SECONDS = 0.1
"""The shortest interval allowed, so that tests take seconds instead of minutes."""
_SHORT_INTERVALS = {
    f"FLEET_SMI_HUB_{what}_INTERVAL": "0.2" for what in ("STREAM", "REMEMBER", "FILES", "PULL")
}


class FleetSmiProcess:
    """A running fleet-smi program whose output goes to a log file."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        log: Path,
        command_prefix: Sequence[str] = (),
        stdin: str = "",
    ) -> None:
        self._log = log
        command = [*command_prefix, sys.executable, "-m", "fleet_smi", *arguments]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, env=dict(env), stdin=subprocess.PIPE, stdout=file, stderr=file
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(stdin.encode())
        self.pid = self._process.pid

    @property
    def output(self) -> str:
        """Return its output so far, stdout and stderr."""
        return self._log.read_text()

    def kill(self) -> None:
        """Kill it (SIGKILL); do nothing if it has ended."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> tuple[int, float]:
        """Send SIGTERM; return its exit code and the seconds it took."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60), time.monotonic() - began


class Lab:
    """Starts programs with the simulated driver in one folder; kills them on close."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self.folder = folder
        self.driver = driver
        self._started: list[FleetSmiProcess] = []

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str],
        log: Path,
        command_prefix: Sequence[str] = (),
        stdin: str = "",
    ) -> FleetSmiProcess:
        """Start a program."""
        self._started.append(
            FleetSmiProcess(
                *arguments, env=env, log=log, command_prefix=command_prefix, stdin=stdin
            )
        )
        return self._started[-1]

    def close(self) -> None:
        """Kill what still runs."""
        for program in self._started:
            program.kill()


class AgentMachine:
    """A simulated machine with GPUs, and its agent."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self.folder = lab.folder / name
        self._lab = lab
        self.state = self.folder / "state"
        self.drop = self.folder / "drop"
        self._scenario = self.folder / "scenario"
        self.drop.mkdir(parents=True)
        self.env = os.environ | scenario_env(lab.driver, self._scenario)
        self.set_scenario(Scenario(gpus=[SimGpu(uuid=f"GPU-{name}-{at}") for at in range(2)]))

    def set_scenario(self, scenario: Scenario) -> None:
        """Change what its simulated driver reports."""
        scenario.write(self._scenario)

    def start_agent(
        self, *flags: str, command_prefix: Sequence[str] = (), stdin: str = ""
    ) -> FleetSmiProcess:
        """Start its agent."""
        interval = () if "--interval" in flags else ("--interval", str(INTERVAL_SECONDS))
        arguments = ("agent", "--state", str(self.state), *interval, *flags)
        return self._lab.start(
            *arguments,
            env=self.env,
            log=self.folder / "log",
            command_prefix=command_prefix,
            stdin=stdin,
        )

    def latest_sequence(self) -> int:
        """Return the sequence number of its latest sample, from the file it drops."""
        for path in self.drop.glob("*.fsmi"):
            return decode_report(path.read_bytes()).snapshots[-1].sequence
        return 0


class LoopbackMachine(AgentMachine):
    """A node that shares this machine with others and differs only by its identity."""

    def __init__(self, lab: Lab, name: str) -> None:
        super().__init__(lab, name)
        root = self.folder / "root"
        (root / "etc").mkdir(parents=True)
        (root / "etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")
        for shared in ("proc", "sys"):
            (root / shared).symlink_to(f"/{shared}")
        self.env |= {"FLEET_SMI_NODE_ROOT": str(root), "FLEET_SMI_NODE_NAME": name}


class LoopbackHub:
    """A hub on a fixed port of this machine, which can be restarted; settings by their names."""

    def __init__(self, lab: Lab, *flags: str, **settings: str) -> None:
        self.folder = lab.folder
        self.state = lab.folder / "hub"
        self.port = free_port()
        self.url = f"{'https' if '--tls' in flags else 'http'}://127.0.0.1:{self.port}"
        self.env = os.environ | _SHORT_INTERVALS | {"FLEET_SMI_HUB_STATE": str(self.state)}
        self.env |= {f"FLEET_SMI_HUB_{name.upper()}": value for name, value in settings.items()}
        self._lab = lab
        self._flags = flags
        self.program = self._started()

    def start(self) -> None:
        """Start it, on the same state."""
        self.program = self._started()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `fleet-smi hub …` on its state."""
        return run_fleet_smi("hub", *arguments, env=self.env)

    def join_flags(self) -> tuple[str, ...]:
        """Return the flags with which an agent can join."""
        token = self.command("token", "add", "--role", "join").stdout.strip()
        return ("--to", self.url, "--join", token)

    def fleet(self) -> FleetView:
        """Return its current view of the fleet."""
        client = HubClient(self.url, fingerprint=read_fingerprint(self.state))
        try:
            return client.fleet()
        finally:
            client.close()

    def node(self, name: str) -> NodeView | None:
        """Return one node, or `None`."""
        return next((node for node in self.fleet().nodes if node.name == name), None)

    def latest_sequence(self, name: str) -> int:
        """Return the latest sequence number of a node; 0 if it never reported."""
        node = self.node(name)
        return 0 if node is None else node.sequence

    def reporting(self) -> set[str]:
        """Return the names of the nodes that are not silent."""
        return {node.name for node in self.fleet().nodes if not node.silent}

    def stored_nodes(self) -> dict[str, NodeCheckpoint]:
        """Return the nodes in its database by name; the hub must not be running."""
        engine = open_database(self.state)
        memory = NodeStore(engine, NodeCheckpoint)
        try:
            return {node.name: node for node in memory.load()}
        finally:
            memory.close()
            engine.dispose()

    def _started(self) -> FleetSmiProcess:
        flags = ("--listen", f"127.0.0.1:{self.port}", *self._flags)
        log = self._lab.folder / "hub-log"
        program = self._lab.start("hub", *flags, env=self.env, log=log)
        wait_until(self._answers)
        return program

    def _answers(self) -> bool:
        with contextlib.suppress(DeliveryError):
            self.fleet()
            return True
        return False


def sequence_ranges(remembered: NodeCheckpoint) -> list[tuple[list[int], list[int], int]]:
    """Return the received sequence ranges and the count of dropped reports, per agent run."""
    return [(run.firsts, run.lasts, run.given_up) for run in remembered.sequences.runs]
