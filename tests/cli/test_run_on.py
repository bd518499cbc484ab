"""`fleet-smi run --on`: on a node that the hub finds, over a real sshd, with its lock deciding."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sim.scenario import Scenario, SimGpu, scenario_env
from tests.builders import gpu
from tests.cli.program import assert_error_line
from tests.cli.test_run_terminal import Shell
from tests.machines import wait_until
from tests.node.leases.held import held_uuids
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sshd import SshNetwork

NAMES = ("gpu-a", "gpu-b")


class Nodes:
    """Two machines behind sshd, each with two GPUs, and a hub that knows them."""

    def __init__(self, folder: Path, driver: Path, network: SshNetwork, hub: ThreadedHub) -> None:
        self.folder = folder
        self._network = network
        self.hub = hub
        self.work = folder / "it's a $HOME"
        self.work.mkdir()
        for name in NAMES:
            self._start(name, driver)
        self.env = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "FLEET_SMI_CLIENT_HUB": hub.url,
            "FLEET_SMI_HUB_STATE": str(folder / "no-hub"),
            "FLEET_SMI_HUB_SSH_CONFIG": str(network.config),
            "FLEET_SMI_AGENT_SOCKET": "off",
        }

    def _start(self, name: str, driver: Path) -> None:
        scenario = self.folder / f"{name}.scenario"
        uuids = [f"GPU-{name}-{index}" for index in range(2)]
        Scenario(gpus=[SimGpu(uuid=uuid) for uuid in uuids]).write(scenario)
        env = scenario_env(driver, scenario) | {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "FLEET_SMI_NODE_LEASE_DIR": str(self.leases(name)),
            "NODE": name,
        }
        self._network.add_host(name, self._network.start_server(env=env))
        cards = [gpu(index, uuid=uuid) for index, uuid in enumerate(uuids)]
        labels = {"rack": name[-1]}
        self.hub.join_and_report(snapshot_now(name, *cards, labels=labels))

    def leases(self, name: str) -> Path:
        return self.folder / f"{name}.leases"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "fleet_smi", "run", *arguments],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate("", timeout=90)
            return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.fixture
def nodes(tmp_path: Path, sim_lib: Path, ssh_network: SshNetwork) -> Iterator[Nodes]:
    with ThreadedHub(tmp_path / "hub") as hub:
        yield Nodes(tmp_path, sim_lib, ssh_network, hub)


def test_it_runs_on_a_node_with_room_in_the_same_directory_with_its_words_as_they_are(
    nodes: Nodes,
) -> None:
    odd = ["it's", "$HOME", "a  b", "", "*", "`x`", 'say "hi"', "back\\slash", "ü", "new\nline"]
    show = "import os, sys; print(os.getcwd(), os.environ['NODE'], sys.argv[1:])"
    done = nodes.run("--on", "label:rack=b", "--", "python3", "-c", show, *odd)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{nodes.work} gpu-b {odd}\n"
    assert "on gpu-b" in done.stderr
    done = nodes.run("--on", "gpu-a", "-n", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.stdout == "0,1\n", done.stderr


def test_the_exit_code_is_that_of_the_command(nodes: Nodes) -> None:
    for code in (0, 1, 2, 127, 143, 255):
        done = nodes.run("--on", "any", "--", "sh", "-c", f"exit {code}")
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
    killed = nodes.run("--on", "any", "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == 128 + signal.SIGKILL


def test_where_somebody_was_faster_the_next_offer_is_tried(nodes: Nodes) -> None:
    with nodes.start("--on", "gpu-a", "-n", "2", "--", "cat") as first:
        wait_until(lambda: len(held_uuids(nodes.leases("gpu-a"))) == 2)
        # The hub has not heard of it yet, and offers both.
        done = nodes.run("--on", "any", "-n", "2", "--", "sh", "-c", "echo $NODE")
        assert done.stdout == "gpu-b\n", done.stderr
        none = nodes.run("--on", "gpu-a", "-n", "2", "--nowait", "--", "true")
        assert none.returncode == 1
        assert none.stdout == ""
        late = nodes.run("--on", "gpu-a", "-n", "2", "--timeout", "1s", "--", "true")
        assert late.returncode == 1
        first.communicate("", timeout=60)
    assert first.returncode == 0
    assert held_uuids(nodes.leases("gpu-a")) == []


def test_a_node_that_ssh_cannot_reach_is_passed_over_and_said(
    nodes: Nodes, ssh_network: SshNetwork
) -> None:
    text = ssh_network.config.read_text()
    ssh_network.config.write_text(f"Host gpu-a\n  HostName 127.0.0.1\n  Port {free_port()}\n{text}")
    done = nodes.run("--on", "any", "-n", "2", "--", "sh", "-c", "echo $NODE")
    assert done.stdout == "gpu-b\n", done.stderr
    only = nodes.run("--on", "gpu-a", "--nowait", "--", "true")
    assert only.returncode == 1
    assert "gpu-a: ssh: connect to host 127.0.0.1" in only.stderr


def test_a_folder_that_is_not_there_is_said(nodes: Nodes) -> None:
    nodes.work.rename(nodes.folder / "moved")
    # The process is still in it: its name is what counts.
    nodes.work.mkdir()
    with nodes.start("--on", "gpu-a", "--nowait", "--", "true") as process:
        nodes.work.rmdir()
        _, err = process.communicate("", timeout=60)
    assert process.returncode in (1, 2)
    assert "fleet-smi: " in err


def test_a_lost_connection_hangs_up_the_command(nodes: Nodes) -> None:
    mark = nodes.folder / "mark"
    script = f"trap 'echo hup > {mark}; exit 1' HUP; echo up; while :; do sleep 0.1; done"
    with nodes.start("--on", "gpu-a", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) != 0
        wait_until(lambda: mark.exists() and mark.read_text() == "hup\n")
    wait_until(lambda: held_uuids(nodes.leases("gpu-a")) == [])


def test_it_waits_for_a_hub_that_is_away_and_says_what_makes_no_sense(nodes: Nodes) -> None:
    assert_error_line(nodes.run("--on", "nobody", "--", "true"), 2, "no node is named nobody")
    none = nodes.run("--on", "label:rack=z", "--", "true")
    assert_error_line(none, 2, "no node has the label rack=z")
    ids = nodes.run("--on", "any", "--gpu-ids", "0", "--", "true")
    assert_error_line(ids, 2, "give --on NODE")
    nodes.env["FLEET_SMI_CLIENT_HUB"] = f"http://127.0.0.1:{free_port()}"
    away = nodes.run("--on", "any", "--nowait", "--", "true")
    assert_error_line(away, 3, "connection refused")
    waits = nodes.run("--on", "any", "--timeout", "1s", "--", "true")
    assert waits.returncode == 1
    assert "waiting for a GPU" in waits.stderr
    del nodes.env["FLEET_SMI_CLIENT_HUB"]
    assert_error_line(nodes.run("--on", "any", "--", "true"), 3, "fleet-smi login")


def test_a_person_waits_in_the_queue_and_what_is_closed_is_not_offered(nodes: Nodes) -> None:
    hub = nodes.hub
    nodes.env["FLEET_SMI_CLIENT_TOKEN"] = hub.token("viewer", person="alice")
    with nodes.start("--on", "gpu-a", "-n", "2", "--note", "first", "--", "cat") as first:
        wait_until(lambda: len(held_uuids(nodes.leases("gpu-a"))) == 2)
        late = nodes.run("--on", "gpu-a", "-n", "2", "--timeout", "1s", "--", "true")
        assert (late.returncode, late.stdout) == (1, ""), late.stderr
        other = nodes.run("--on", "any", "-n", "2", "--", "sh", "-c", "echo $NODE; exit 4")
        assert (other.returncode, other.stdout) == (4, "gpu-b\n"), other.stderr
        first.communicate("", timeout=60)
    assert first.returncode == 0
    view = msgspec.json.decode(hub.request("GET", "/api/v1/queue").body)
    assert [row for row in view["rows"] if row.get("place") is not None] == []
    closing = {"label": "rack=b", "note": "new fan"}
    admin = hub.token("admin", person="maria")
    assert hub.request_json("POST", "/api/v1/closings", closing, token=admin).status == 200
    none = nodes.run("--on", "gpu-b", "--nowait", "--", "true")
    assert none.returncode == 1, none.stderr
    assert_error_line(nodes.run("--on", "label:no", "--", "true"), 2, "no node has the label no")


def test_the_command_has_the_terminal_with_ctrl_c_and_the_size_of_the_window(nodes: Nodes) -> None:
    run = f"cd {shlex.quote(str(nodes.work))}; {sys.executable} -m fleet_smi run --on gpu-b --"
    shell = Shell(nodes.env | {"TERM": "xterm"})
    try:
        # bash handles a signal that comes before `sleep` is started only when that has ended.
        wait = "while :; do sleep 0.1; done"
        script = f"trap 'echo int; stty size; exit 5' INT; test -t 0 && echo up!; {wait}"
        shell.resize(31, 97)
        shell.type(f"{run} bash -c {shlex.quote(script)}; echo code=$?\n")
        shell.wait_for("up!\r\n")
        shell.type("\x03")
        assert "int\r\n31 97\r\n" in shell.wait_for("code=5\r\n")
    finally:
        shell.close()
    wait_until(lambda: held_uuids(nodes.leases("gpu-b")) == [])
