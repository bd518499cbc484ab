"""The light part on every Python that this machine has: commands, agent, client, Python API."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sim.scenario import GIB, Scenario, SimGpu
from tests.cli.program import NO_HUB_HERE
from tests.install.environments import PROJECT, VERSIONS, make_environment
from tests.machines import wait_until
from tests.server.routes.sample_history import report_history
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated
from tests.sshd import SshNetwork

IMPORT_ALL = Path(__file__).with_name("import_all.py")
API = "import fleet_smi; print(len(fleet_smi.gpus()), fleet_smi.free(n=1)[0].index)"
TIMEOUTS = """
import asyncio
from fleet_smi.hub.async_timeout import timeout
from fleet_smi.hub.sources.polling import run_together

async def wait():
    async with timeout(60):
        await asyncio.sleep(60)

async def main():
    try:
        async with timeout(0.01):
            await wait()
    except TimeoutError:
        print("timed out")
    both = asyncio.ensure_future(run_together(wait(), wait()))
    await asyncio.sleep(0.01)
    both.cancel()
    try:
        await both
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(main())
"""
CLIENT_COMMANDS = {
    (): "gpu01",
    ("-o",): "gpu01",
    ("--json",): "gpu01",
    ("free",): "0",
    ("who", "--at", "-1h"): "bob",
    ("nodes",): "gpu02",
    ("history", "--since", "2h"): "gpu01",
    ("report", "--since", "1d"): "bob",
    ("report", "--since", "1d", "--format", "html"): "</html>",
    ("queue",): "",
    ("reserve", "list"): "",
    ("leases",): "",
    ("like", "gpustat"): "gpu01",
}
"""Commands that ask a hub, and a word of the answer."""


@pytest.fixture(params=VERSIONS, scope="module")
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter with nothing but the packages of the light part."""
    return make_environment("light", request.param)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub of this Python, with some history."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        report_history(running)
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**NO_HUB_HERE, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "100"}


def run(python: str, *arguments: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [python, *arguments], env=env, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_every_module_can_be_imported(python: str, env: dict[str, str]) -> None:
    makefile = (PROJECT / "Makefile").read_text()
    (not_light,) = re.findall(r"^NOT_LIGHT = (.+)$", makefile, re.MULTILINE)
    number, version = run(python, str(IMPORT_ALL), env=env | {"NOT_LIGHT": not_light}).split()
    assert int(number) > 400
    assert f"light-{version}-" in python


def test_commands_read_this_machine(
    python: str, env: dict[str, str], simulated: Simulated, tmp_path: Path
) -> None:
    settings = tmp_path / "fleet-smi.toml"
    settings.write_text('[node]\nname = "workstation"\n')
    gpus = [SimGpu(), SimGpu(memory_used=60 * GIB)]
    env = simulated(Scenario(gpus=gpus)) | env | {"FLEET_SMI_CONFIG": str(settings)}
    assert run(python, "-m", "fleet_smi", env=env).startswith("workstation · ")
    assert run(python, "-m", "fleet_smi", "free", env=env) == "0\n"
    assert run(python, "-c", API, env=env) == "2 0\n"
    (node,) = msgspec.json.decode(run(python, "-m", "fleet_smi", "--json", env=env))["nodes"]
    assert [each["verdict"]["state"] for each in node["gpus"]] == ["free", "ghost"]
    env |= {"FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases")}
    job = ("run", "-n", "1", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert run(python, "-m", "fleet_smi", *job, env=env) == "0\n"


def test_an_agent_reports_to_a_hub(
    python: str, env: dict[str, str], simulated: Simulated, tmp_path: Path
) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        env = simulated(Scenario(gpus=[SimGpu(), SimGpu()])) | env
        flags = ("--to", hub.url, "--join", hub.token("join"), "--state", str(tmp_path / "agent"))
        command = [python, "-m", "fleet_smi", "agent", *flags, "--interval", "0.2"]
        with subprocess.Popen(command, env=env) as agent:
            try:
                wait_until(lambda: hub.fleet().summary.gpus == 2)
            finally:
                agent.terminate()
        assert agent.returncode == 0


def test_commands_ask_a_hub(python: str, env: dict[str, str], hub: ThreadedHub) -> None:
    for arguments, word in CLIENT_COMMANDS.items():
        command = ("-m", "fleet_smi", *arguments, "--hub", hub.url)
        assert word in run(python, *command, env=env), arguments


def test_commands_read_machines_over_ssh(
    python: str, env: dict[str, str], ssh_network: SshNetwork
) -> None:
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    ssh_network.add_host("quick", ssh_network.start_server(env=plain))
    env |= {"FLEET_SMI_HUB_SSH_CONFIG": str(ssh_network.config)}
    printed = run(python, "-m", "fleet_smi", "nodes", "--ssh", "quick,missing", env=env)
    assert "1 of 2 nodes" in printed
    assert run(python, "-c", TIMEOUTS, env=env) == "timed out\ncancelled\n"
