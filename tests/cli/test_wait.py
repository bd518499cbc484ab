"""`fleet-smi wait` without a hub: look until it can be met, then print, tell or run."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import UserProcesses
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A machine with a busy GPU and a free one."""
    used = SimProcess(pid=people.start(), memory=GIB)
    busy = SimGpu(memory_used=2 * GIB, util_gpu=90, processes=[used])
    environment = simulated(Scenario(gpus=[busy, SimGpu()]))
    environment |= {"FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases")}
    yield environment
    run_fleet_smi("release", env=environment)


@contextmanager
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server that keeps the texts which are sent to it."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/topic", received
        finally:
            server.shutdown()
            thread.join()


def test_what_is_free_is_printed_told_and_used(env: dict[str, str]) -> None:
    command = "echo $FLEET_SMI_GPUS $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; exit 7"
    with listener() as (url, received):
        notify = ("--notify", "bell", "--notify", url)
        done = run_fleet_smi("wait", "--here", *notify, "--then", command, env=env)
    assert (done.returncode, done.stdout) == (7, "1\n1 1 PCI_BUS_ID\n")
    assert done.stderr == "\a"
    assert received == ["free for you: 1"]


def test_it_waits_until_the_gpu_is_given_back(env: dict[str, str]) -> None:
    assert run_fleet_smi("free", "--hold", "1d", env=env).stdout == "1\n"
    command = [sys.executable, "-m", "fleet_smi", "wait", "--here"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        assert "waiting for a GPU: no GPU is free" in waiting.stderr.readline()
        assert run_fleet_smi("release", env=env).returncode == 0
        printed, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, printed) == (0, "1\n")


def test_a_request_that_is_not_met_in_time_or_makes_no_sense_fails(env: dict[str, str]) -> None:
    late = run_fleet_smi("wait", "--here", "-n", "2", "--timeout", "0.1s", env=env)
    assert (late.returncode, late.stdout) == (1, "")
    assert "1 of 2 requested GPUs are free" in late.stderr
    for arguments, text in (
        (("--notify", "mail"), "give bell, desktop, or a URL"),
        (("--notify", "file:///etc/passwd"), "give bell, desktop, or a URL"),
        (("-n", "0"), "must be 1 to"),
        (("--max-hours", "-1"), "must be more than 0"),
        (("--on", "gpu03"), "there is only this machine"),
    ):
        assert_error_line(run_fleet_smi("wait", "--here", *arguments, env=env), 2, text)


def test_a_notice_that_cannot_be_sent_does_not_matter(env: dict[str, str]) -> None:
    done = run_fleet_smi(
        "wait", "--here", "--notify", "http://127.0.0.1:9/", "--notify", "desktop", env=env
    )
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "no notice to http://127.0.0.1:9/" in done.stderr


def test_other_machines_are_looked_at_without_a_hub(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    drop = ("agent", "--once", "--drop", str(folder))
    assert run_fleet_smi(*drop, env=env | {"FLEET_SMI_NODE_NAME": "gpu07"}).returncode == 0
    fleet = ("wait", "--dir", str(folder))
    found = run_fleet_smi(*fleet, "--then", "echo $FLEET_SMI_NODE $FLEET_SMI_GPUS", env=env)
    printed, then = found.stdout.splitlines()
    # Where ssh reaches it: its name, or its address.
    assert (found.returncode, printed, then.split()[1:]) == (0, "gpu07:1", ["1"])
    elsewhere = run_fleet_smi(*fleet, "--on", "gpu08", env=env)
    assert_error_line(elsewhere, 2, "no node is named gpu08: see `fleet-smi nodes`")
