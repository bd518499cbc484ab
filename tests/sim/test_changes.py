"""Running programs see a rewritten scenario."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sim.scenario import Scenario, SimGpu
from tests.sim.fixtures import Simulated
from tests.sim.nvml_program import NvmlProgram

LOST = 15
A, B = (f"GPU-00000000-0000-0000-0000-00000000000{letter}" for letter in "ab")


def test_the_next_call_sees_the_new_scenario(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(util_gpu=1)]))) as program:
        program.evaluate("(handle := gpu(0)) and None")
        for load in range(2, 30):
            simulated(Scenario(gpus=[SimGpu(util_gpu=load)]))
            assert program.evaluate("N.nvmlDeviceGetUtilizationRates(handle).gpu") == load


def test_a_gpu_that_vanished_is_lost_and_the_others_keep_their_handles(
    simulated: Simulated,
) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(uuid=A), SimGpu(uuid=B)]))) as program:
        program.evaluate("(a := gpu(0)) and (b := gpu(1)) and None")
        simulated(Scenario(gpus=[SimGpu(uuid=B, power_usage=5)]))
        assert program.error_code("N.nvmlDeviceGetPowerUsage(a)") == LOST
        assert program.evaluate("N.nvmlDeviceGetPowerUsage(b)") == 5
        assert program.evaluate("N.nvmlDeviceGetIndex(b)") == 0
        simulated(Scenario(gpus=[SimGpu(uuid=A, power_usage=6), SimGpu(uuid=B)]))
        assert program.evaluate("N.nvmlDeviceGetPowerUsage(a)") == 6


def test_an_invalid_file_leaves_the_last_scenario_in_force(
    simulated: Simulated,
) -> None:
    env = simulated(Scenario(gpus=[SimGpu(temperature=55)]))
    with NvmlProgram(env) as program:
        Path(env["FLEET_SMI_SIM"]).write_text("gpu\ntemprature 60\n")
        assert program.evaluate("N.nvmlDeviceGetTemperature(gpu(0), 0)") == 55
        program.process.kill()
        _, errors = program.process.communicate()
    assert ":2: cannot understand: temprature 60" in errors


HAMMER = """
import concurrent.futures, sys
import pynvml as N

N.nvmlInit()
gpu = N.nvmlDeviceGetHandleByIndex(0)

def read(_):
    memory = N.nvmlDeviceGetMemoryInfo(gpu)
    return memory.used * 2 == memory.total

print("ready", flush=True)
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    whole = all(pool.map(read, range(1000)))
print("whole" if whole else "torn")
"""


def test_threads_read_consistent_values_while_the_scenario_changes(simulated: Simulated) -> None:
    def halves(size: int) -> Scenario:
        return Scenario(gpus=[SimGpu(memory_total=2 * size, memory_used=size, memory_reserved=0)])

    with subprocess.Popen(
        [sys.executable, "-c", HAMMER], env=simulated(halves(1)), text=True, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        size = 1
        while program.poll() is None:
            simulated(halves(size := size + 1))
        assert program.stdout.read() == "whole\n"


def test_a_static_scenario_is_read_once(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(util_gpu=1)])) | {"FLEET_SMI_SIM_STATIC": "1"}
    with NvmlProgram(env) as program:
        simulated(Scenario(gpus=[SimGpu(util_gpu=2)]))
        assert program.evaluate("N.nvmlDeviceGetUtilizationRates(gpu(0)).gpu") == 1
