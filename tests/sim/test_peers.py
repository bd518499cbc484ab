"""Unmodified third-party programs agree with the scenario."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.build import build
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess, scenario_env
from tests.sim.fixtures import Simulated

BUSY = SimGpu(
    name="NVIDIA A100-SXM4-80GB",
    memory_total=80 * GIB,
    memory_used=12 * GIB,
    util_gpu=87,
    temperature=61,
    power_usage=301_000,
    power_limit=400_000,
    processes=[SimProcess(pid=os.getpid(), memory=11 * GIB, sm=85, mem=30)],
)


def run_module(env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gpustat_agrees_with_the_scenario(simulated: Simulated) -> None:
    shown = json.loads(
        run_module(simulated(Scenario(gpus=[BUSY, SimGpu()])), "-m", "gpustat", "--json")
    )
    busy, idle = shown["gpus"]
    assert busy["name"] == BUSY.name
    assert (busy["memory.used"], busy["memory.total"]) == (12 * 1024, 80 * 1024)
    assert (busy["utilization.gpu"], busy["temperature.gpu"]) == (87, 61)
    assert (busy["power.draw"], busy["enforced.power.limit"]) == (301, 400)
    (process,) = busy["processes"]
    assert (process["pid"], process["gpu_memory_usage"]) == (os.getpid(), 11 * 1024)
    assert idle["processes"] == []


SNAPSHOT = """
import json
from nvitop import Device

def read(device):
    seen = device.as_snapshot()
    load = [[p.pid, p.gpu_memory(), p.gpu_sm_utilization()] for p in device.processes().values()]
    return [seen.name, seen.memory_used, seen.gpu_utilization, seen.power_usage, load]

print(json.dumps([[read(d), [read(m) for m in d.mig_devices()]] for d in Device.all()]))
"""


def test_nvitop_agrees_with_the_scenario(simulated: Simulated) -> None:
    split = SimGpu(
        mig=True,
        instances=[SimInstance(profile="1g.10gb", gi=9, memory_used=3 * GIB)],
        processes=[SimProcess(pid=os.getpid(), memory=2 * GIB, gi=9, ci=0)],
    )
    shown = json.loads(run_module(simulated(Scenario(gpus=[BUSY, split])), "-c", SNAPSHOT))
    (busy, none), (parent, (instance,)) = shown
    assert busy == [BUSY.name, 12 * GIB, 87, 301_000, [[os.getpid(), 11 * GIB, 85]]]
    assert none == []
    assert parent[2] == "N/A"
    assert instance[0].endswith("MIG 1g.10gb")
    assert instance[1] == 3 * GIB
    assert instance[4][0][:2] == [os.getpid(), 2 * GIB]


@pytest.mark.parametrize(
    "branch, driver, without, quirks",
    [
        (418, "418.87.01", (), []),
        (470, "470.82.01", (), []),
        (535, "535.54.03", ("nvmlDeviceGetRunningProcessDetailList",), ["wide-v3"]),
    ],
)
def test_nvitop_reads_the_processes_of_old_drivers(
    sim_lib: Path,
    tmp_path: Path,
    branch: int,
    driver: str,
    without: tuple[str, ...],
    quirks: list[str],
) -> None:
    build(tmp_path, branch, without, sim_lib / "objects")
    processes = [
        SimProcess(pid=os.getpid(), memory=11 * GIB, sm=85),
        SimProcess(pid=os.getppid(), memory=5 * MIB, sm=1),
    ]
    scenario = Scenario(driver=driver, quirks=quirks, gpus=[SimGpu(processes=processes)])
    scenario.write(tmp_path / "scenario")
    env = os.environ | scenario_env(tmp_path, tmp_path / "scenario")
    ((gpu, _),) = json.loads(run_module(env, "-c", SNAPSHOT))
    assert sorted(gpu[4]) == sorted([p.pid, p.memory, p.sm] for p in processes)


def test_nvisel_offers_the_idle_gpu(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[BUSY, SimGpu()]))
    out = run_module(env, "-m", "nvitop.select", "--count", "1", "--format", "uuid")
    assert out.strip() == "GPU-00000000-0000-4000-8000-000000000001"
