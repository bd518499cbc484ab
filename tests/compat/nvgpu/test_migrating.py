"""The migration guide from nvgpu: its steps work."""

from pathlib import Path

import msgspec
import pytest

from fleet_smi.model.snapshot import Snapshot
from sim.scenario import MIB, Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.compat.masters import read_cluster_status
from tests.compat.migration_guide import (
    migration_commands,
    migration_section,
    run_curl,
    write_section_settings,
)
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import wait_until
from tests.ports import free_port
from tests.sim.fixtures import Simulated

IDLE = {"type": "NVIDIA T4", "is_available": True, "pids": "", "users": "", "utilization": 0}
HUB = "fleet-smi hub"
SERVE = "fleet-smi agent --serve :1080 --insecure-open"
AVAILABLE = "fleet-smi like nvgpu available -l 1"
LIST = "fleet-smi like nvgpu list"
CURL = 'curl -H "Authorization: Bearer $TOKEN" http://gpuhub:7070/cluster_status'


def test_every_command_of_the_section_is_run_here_and_no_other() -> None:
    assert migration_commands("nvgpu") == [HUB, SERVE, AVAILABLE, LIST, CURL]


def test_side_by_side_a_hub_polls_its_agents_and_serves_as_its_master(
    lab: Lab, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = FixedResponseServer(0, msgspec.json.encode({"hostname": "gpu02", "gpus": [IDLE]}))
    try:
        places = {"gpu02": f"127.0.0.1:{agent.port}", "gpu03:1080": f"127.0.0.1:{free_port()}"}
        settings = write_section_settings("nvgpu", places, tmp_path)
        for name, value in simulated(Scenario(gpus=[SimGpu()])).items():
            monkeypatch.setenv(name, value)
        hub = LoopbackHub(lab, "--config", settings)
        wait_until(lambda: len(hub.reporting()) == 2)
        token = hub.command("token", "add", "--role", "viewer").stdout.strip()
        wait_until(lambda: run_curl(CURL, hub.url, TOKEN=token).startswith(b"["))
        output = run_curl(CURL, hub.url, TOKEN=token)
    finally:
        agent.close()
    kinds = [isinstance(each, Snapshot) for each in read_cluster_status(output)]
    assert sorted(kinds) == [False, True, True]


def test_an_agent_in_place_of_its_own_answers_its_master(lab: Lab, simulated: Simulated) -> None:
    port = free_port()
    flags = SERVE.replace(":1080", f":{port}").split()[1:]
    lab.start(*flags, env=simulated(Scenario(gpus=[SimGpu()])), log=lab.folder / "log")
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: run_curl(f"curl {url}/gpu_status", url).startswith(b'{"hostname"'))
    assert run_curl(f"curl {url}/cluster_status", url).startswith(b'[{"hostname"')
    assert b"<h2>self (" in run_curl(f"curl {url}/", url)


def test_its_command_line_works(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(memory_used=70_000 * MIB), SimGpu(), SimGpu()]))
    assert run_fleet_smi(*AVAILABLE.split()[1:], env=env).stdout == "1\n"
    assert run_fleet_smi(*LIST.split()[1:], env=env).stdout.count("[ ]") == 2


def test_the_python_names_are_there() -> None:
    import fleet_smi as package

    for name in ("available_gpus", "gpu_info"):
        assert f"fleet_smi.{name}()" in migration_section("nvgpu")
        assert callable(getattr(package, name))
