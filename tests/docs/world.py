"""The world in which the commands of the documentation are run: a hub, nodes, a machine with GPUs.

The hub `gpuhub` has the nodes that the pages name, with a past; the machine itself has a simulated
driver; `gpu01` and others are reached by real ssh. Addresses and folders of the pages are replaced.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from fleet_smi.model.snapshot import Snapshot
from sim.scenario import GIB, Scenario, SimGpu, scenario_env
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sshd import SshNetwork

NODES = ("gpu01", "gpu02", "gpu03", "gpu04", "gpu07", "cml10", "cml11")
SSH_HOSTS = ("gpu01", "gpu02", "gpu03", "lab-1")
_CARD = "NVIDIA H100 80GB HBM3"
_ENDED_BY_SIGNAL = (0, 130, 143, -signal.SIGTERM)
_TIMEOUT_SECONDS = 60.0


def report_node(hub: ThreadedHub, name: str) -> None:
    """Let a node report, from two weeks ago to now; a quarter of its GPUs are in use."""
    now = time.time()

    def snapshot(at: float, sequence: int) -> Snapshot:
        cards = [
            gpu(
                index,
                uuid=f"GPU-{name}-{index}",
                name=_CARD if name != "gpu02" else "NVIDIA A100-SXM4-80GB",
                processes=(process(pid=100 + index),) if index < 2 else (),
                busy_percent=90.0 if index < 2 else 0.0,
            )
            for index in range(8)
        ]
        labels = {"rack": "3"} if name == "gpu03" else {}
        return snapshot_now(name, *cards, taken_at=at, sequence=sequence, labels=labels)

    past = [now - days * 86400.0 for days in (14, 10, 6, 3, 1.5, 1, 0.2, 0.05, 0)]
    hub.join_and_report(*(snapshot(at, number) for number, at in enumerate(past, 1)))


def _date(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d")


class DocumentedWorld:
    """Runs commands as a reader would, each in a shell; closed with `close`."""

    def __init__(self, folder: Path, driver: Path) -> None:
        self._folder = folder
        self.project = Path(__file__).parents[2]
        self.hub = ThreadedHub(folder / "hub")
        for name in NODES:
            report_node(self.hub, name)
        scenario = Scenario(gpus=[SimGpu(memory_used=0, memory_total=80 * GIB, name=_CARD)] * 8)
        scenario.write(folder / "machine")
        machine = scenario_env(driver, folder / "machine")
        (folder / "ssh").mkdir()
        self._ssh = SshNetwork(folder / "ssh")
        server = self._ssh.start_server(env=machine)
        for host in SSH_HOSTS:
            self._ssh.add_host(host, server)
        self._write_programs(folder / "bin")
        self._env = self._environment(machine)
        self._port = free_port()
        self.admin = self.hub.token("admin", person="alice")
        self.as_alice = (
            f"export FLEET_SMI_CLIENT_HUB={self.hub.url} FLEET_SMI_CLIENT_TOKEN={self.admin}"
        )
        self._replaced = {
            "http://gpuhub:7070": self.hub.url,
            "https://gpuhub:7070": self.hub.url,
            "http://localhost:7070": self.hub.url,
            " :7070": f" 127.0.0.1:{free_port()}",
            " :7071": f" 127.0.0.1:{self._port}",
            "/nfs/gpu-status": str(folder / "nfs"),
            "/var/www/": f"{folder}/www-",
            "/run/secrets/": f"{folder}/",
            "/etc/fleet-smi/serve-token": str(folder / "token.txt"),
            "/tmp/driver": str(folder / "driver"),
            "/tmp/machine": str(folder / "described-machine"),
            ".venv/bin/fleet-smi": "fleet-smi",
            "python sim/": f"{sys.executable} {self.project}/sim/",
            " monitoring/": f" {self.project}/monitoring/",
            "echo TOKEN": f"echo {self.hub.token('join')}",
            "--join TOKEN": f"--join {self.hub.token('join')}",
            "fleet-smi logout": (
                f"fleet-smi login --hub {self.hub.url} --token-file token.txt && fleet-smi logout"
            ),
            # As root it would write the file of the whole machine.
            "config init": "config init --path init.toml",
            "--nodes 2000": "--nodes 5",
            "--for 30": "--for 1",
            "--jitter 20": "--jitter 0",
            "2026-11-01": _date(-9),
            "2026-11-08": _date(-2),
        }

        self.run("fleet-smi agent --drop /nfs/gpu-status --once")

    def close(self) -> None:
        """Stop everything."""
        self._ssh.close()
        self.hub.stop()

    def run(self, command: str) -> None:
        """Run a command to its end; it must succeed."""
        done = subprocess.run(
            ["bash", "-c", self._translate(command)],
            cwd=self._folder / "work", env=self._env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        self._restore(command)

    def _restore(self, command: str) -> None:
        """Undo what would keep the next command from working."""
        if "--hold" in command:
            self.run("fleet-smi release")
        if "nodes remove gpu07" in command:
            report_node(self.hub, "gpu07")
        if "nodes rename gpu07" in command:
            self.run(f"{self.as_alice}; fleet-smi nodes rename big-one ''")
        if "reserve --node" in command:
            path = "/api/v1/reservations"
            listed = msgspec.json.decode(self.hub.request("GET", path).body)
            for each in listed["reservations"]:
                self.hub.request("DELETE", f"{path}/{each['id']}", token=self.admin)

    def serve(self, command: str) -> None:
        """Start what runs until it is stopped; it must say something, go on, and end when told."""
        log = self._folder / "served.log"
        log.write_text("")
        before = self._written()
        with log.open("w") as output:
            started = subprocess.Popen(
                ["bash", "-c", self._translate(command)],
                cwd=self._folder / "work", env=self._env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            wait_until(lambda: self._written() != before or started.poll() is not None)
            assert started.poll() is None, f"{command}\n{log.read_text()}"
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGTERM)
            code = started.wait(_TIMEOUT_SECONDS)
        assert code in _ENDED_BY_SIGNAL, f"{command}: {code}\n{log.read_text()}"

    def _written(self) -> list[tuple[str, int]]:
        """What programs have written, by which one that runs on shows that it works."""
        files = [
            path
            for pattern in ("served.log", "nfs/*", "agent/*", "www-*/*", "work/page/*")
            for path in self._folder.glob(pattern)
        ]
        written = [(str(path), path.stat().st_mtime_ns) for path in files if path.stat().st_size]
        with socket.socket() as client:
            refused = client.connect_ex(("127.0.0.1", self._port))
        return [*written, ("refused", refused)]

    def _translate(self, command: str) -> str:
        for written, real in self._replaced.items():
            command = command.replace(written, real)
        return command

    def _environment(self, machine: dict[str, str]) -> dict[str, str]:
        home = self._folder / "home"
        for each in (home, self._folder / "work", self._folder / "nfs", self._folder / "leases"):
            each.mkdir(exist_ok=True)
        (self._folder / "leases").chmod(0o1777)
        token = self._folder / "token.txt"
        token.touch(0o600)
        token.write_text(self.hub.token("viewer", person="alice"))
        shutil.copy(token, self._folder / "work/token.txt")
        join_token = self._folder / "join-token"
        join_token.touch(0o600)
        join_token.write_text("fsmi_join_" + "x" * 43)
        fish = home / ".config/fish/completions"
        fish.mkdir(parents=True)
        path = f"{self._folder / 'bin'}:{machine.get('PATH', os.environ['PATH'])}"
        return os.environ | machine | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "PATH": path,
            "TOKEN": token.read_text(),
            "FLEET_SMI_HUB_STATE": str(self._folder / "own-hub"),
            "FLEET_SMI_HUB_LISTEN": f"127.0.0.1:{free_port()}",
            "FLEET_SMI_HUB_SSH_CONFIG": str(self._ssh.config),
            "FLEET_SMI_AGENT_STATE": str(self._folder / "agent"),
            "FLEET_SMI_NODE_LEASE_DIR": str(self._folder / "leases"),
        }  # fmt: skip

    def _write_programs(self, folder: Path) -> None:
        folder.mkdir()
        programs = {
            "fleet-smi": f'exec {sys.executable} -m fleet_smi "$@"',
            "python": f'exec {sys.executable} "$@"',
            "sudo": 'exec "$@"',
        }
        for name, body in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)
        (self._folder / "work").mkdir(exist_ok=True)
        (self._folder / "work/train.py").write_text("print('trained')\n")
        (self._folder / "work/train.sh").write_text("#!/bin/sh\necho trained\n")
        (self._folder / "work/train.sh").chmod(0o755)
