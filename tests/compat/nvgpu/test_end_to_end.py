"""The real nvgpu 0.9.0 as a peer: a hub polls its agent, its master polls our agent."""

import json
import os
import pwd
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from bench.peers import PEERS, NotAvailable, PeerTool, clean_environment, install
from fleet_smi.model.snapshot import Snapshot
from sim.scenario import GIB, Scenario, SimGpu, SimProcess, scenario_env
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.compat.masters import read_cluster_status
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import UserProcesses, wait_until
from tests.ports import free_port

pytestmark = pytest.mark.timeout(600)  # the first time it is downloaded
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture(scope="module")
def peer() -> PeerTool:
    """nvgpu in an environment of its own; skip where it cannot be had, but not in CI."""
    nvgpu = PEERS["nvgpu"]
    try:
        install(nvgpu)
    except NotAvailable as error:
        assert not os.environ.get("CI"), f"nvgpu cannot be installed: {error}"
        pytest.skip(f"nvgpu cannot be installed here: {error}")
    return nvgpu


@pytest.fixture
def driver(sim_lib: Path, tmp_path: Path, people: UserProcesses) -> dict[str, str]:
    """Two GPUs, one of them in use, and with a process that is gone."""
    working = SimProcess(pid=people.start("sleep", "600"), memory=30 * GIB)
    gone = SimProcess(pid=4_000_000_000, memory=GIB)
    busy = SimGpu(memory_used=31 * GIB, util_gpu=97, temperature=71, processes=[working, gone])
    Scenario(gpus=[SimGpu(clock_sm=210), busy]).write(tmp_path / "scenario")
    return scenario_env(sim_lib, tmp_path / "scenario")


@contextmanager
def nvgpu_web(peer: PeerTool, env: Mapping[str, str], log: Path) -> Iterator[str]:
    """The web application of nvgpu, which is agent and master in one; its address."""
    own = {"FLASK_APP": "nvgpu.webapp", "PYTHONUNBUFFERED": "1", **peer.environment()}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [peer.program("flask"), "run", "--host", "127.0.0.1", "--port", "0"],
            env=clean_environment() | dict(env) | own,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        wait_until(lambda: process.poll() is not None or _address(log) is not None)
        address = _address(log)
        assert address is not None, log.read_text()
        yield address
    finally:
        process.kill()
        process.wait()


def _address(log: Path) -> str | None:
    found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())
    return None if found is None else found[1]


def get(url: str) -> bytes:
    with urlopen(url, timeout=30) as response:
        body: bytes = response.read()
    return body


def test_its_agent_is_received_by_a_hub(
    peer: PeerTool, driver: dict[str, str], lab: Lab, tmp_path: Path
) -> None:
    with nvgpu_web(peer, driver, tmp_path / "nvgpu.log") as agent:
        settings = tmp_path / "fleet-smi.toml"
        settings.write_text(f'[hub]\nnvgpu = ["{agent}"]\nnvgpu_interval = "0.5s"\n')
        hub = LoopbackHub(lab, "--config", str(settings))
        wait_until(lambda: bool(hub.reporting()))
        (node,) = hub.fleet().nodes
        offered = run_fleet_smi("free", "--hub", hub.url, env=os.environ)
        listed = run_fleet_smi("like", "nvgpu", "available", "--hub", hub.url, env=os.environ)
    # On the first day, before any machine has an agent; nvgpu's own rule needs the memory.
    assert offered.stdout == f"{node.name}:0\n"
    assert_error_line(listed, 1, "no GPU has at most 20 % of its memory in use")
    assert "as reported by nvgpu" in node.gpus[0].verdict.reason
    assert (node.name, node.via) == (socket.gethostname(), "nvgpu")
    idle, busy = node.gpus
    assert (idle.processes, idle.sm_clock_mhz, idle.memory_used_bytes) == ((), 210, None)
    assert (busy.busy_percent, busy.temperature_celsius) == (97, 71)
    assert [one.user for one in busy.processes or ()] == [ME, None]
    assert busy.verdict.state == "busy"
    # The agent is gone now: what it said is not shown as live.
    wait_until(lambda: not hub.reporting())
    (node,) = hub.fleet().nodes
    assert {each.verdict.state for each in node.gpus} == {"unknown"}


def test_its_master_polls_an_agent(
    peer: PeerTool, driver: dict[str, str], lab: Lab, tmp_path: Path
) -> None:
    port = free_port()
    own = f"http://127.0.0.1:{port}"
    lab.start(
        *("agent", "--serve", f"127.0.0.1:{port}", "--interval", "0.2"),
        env=os.environ | driver,
        log=tmp_path / "agent.log",
    )
    wait_until(lambda: answers(f"{own}/gpu_status"))
    dead = f"http://127.0.0.1:{free_port()}"
    settings = tmp_path / "nvgpu_master.cfg"
    settings.write_text(f"AGENTS = [{own!r}, {dead!r}, 'self']\n")
    env = {**driver, "NVGPU_CLUSTER_CFG": str(settings), "FORCE_COLOR": "1"}
    with nvgpu_web(peer, env, tmp_path / "nvgpu.log") as master:
        output = get(f"{master}/cluster_status")
        page = get(master).decode()
    ours, missing, theirs = json.loads(output)
    assert list(ours) == list(theirs) == ["hostname", "gpus"]
    assert missing == {"error": "Host not available"}
    # Of two that read one driver, the stand-in says what the real one says.
    assert without_since(ours) == without_since(theirs)
    assert [bool(each["running_since"]) for each in ours["gpus"]] == [False, True]
    assert page.count(f"{ME},?") == 2
    kinds = [isinstance(each, Snapshot) for each in read_cluster_status(output)]
    assert kinds == [True, False, True]


def without_since(machine: dict[str, Any]) -> dict[str, Any]:
    """What a machine says, but for a text that changes from one second to the next."""
    return machine | {"gpus": [each | {"running_since": None} for each in machine["gpus"]]}


def answers(url: str) -> bool:
    try:
        get(url)
    except OSError:
        return False
    return True
