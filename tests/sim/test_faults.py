"""Injected faults: each affects the call and GPU of the scenario, and no other."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

import pytest

from sim.scenario import Scenario, SimGpu, SimProcess
from tests.sim.fixtures import Simulated
from tests.sim.nvml_program import NvmlFailed, NvmlProgram

LOST, UNKNOWN = 15, 999
POWER = "N.nvmlDeviceGetPowerUsage(gpu({}))"
CODES = {
    "not-supported": 3,
    "no-permission": 4,
    "not-found": 6,
    "timeout": 10,
    "lost": 15,
    "reset-required": 16,
    "unknown": 999,
    "17": 17,
}


def one_of_two(faults: Mapping[str, str]) -> Scenario:
    return Scenario(gpus=[SimGpu(), SimGpu(faults=faults)])


@pytest.mark.parametrize("what, code", CODES.items())
def test_a_call_fails_on_the_gpu_that_has_the_fault(
    simulated: Simulated, what: str, code: int
) -> None:
    with NvmlProgram(simulated(one_of_two({"nvmlDeviceGetPowerUsage": what}))) as program:
        assert program.error_code(POWER.format(1)) == code
        assert program.error_code(POWER.format(0)) == 0
        assert program.error_code("N.nvmlDeviceGetName(gpu(1))") == 0


@pytest.mark.parametrize(
    "name, hit",
    [
        ("nvmlDeviceGetMemoryInfo", (LOST, LOST)),
        ("MemoryInfo", (LOST, LOST)),
        ("nvmlDeviceGetMemoryInfo_v2", (0, LOST)),
    ],
)
def test_a_name_without_a_version_is_every_version(
    simulated: Simulated, name: str, hit: tuple[int, int]
) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(faults={name: "lost"})]))) as program:
        first = program.error_code("N.nvmlDeviceGetMemoryInfo(gpu(0))")
        second = program.error_code("N.nvmlDeviceGetMemoryInfo(gpu(0), version=N.nvmlMemory_v2)")
    assert (first, second) == hit


def test_one_star_leaves_the_handle_two_stars_do_not(simulated: Simulated) -> None:
    gpus = [SimGpu(faults={"*": "lost"}), SimGpu(faults={"**": "lost"}), SimGpu()]
    with NvmlProgram(simulated(Scenario(gpus=gpus))) as program:
        assert program.error_code("gpu(0)") == 0
        assert program.error_code("N.nvmlDeviceGetUUID(gpu(0))") == LOST
        assert program.error_code("gpu(1)") == LOST
        assert program.error_code("N.nvmlDeviceGetUUID(gpu(2))") == 0
        assert program.evaluate("N.nvmlDeviceGetCount()") == 3


def test_a_fault_of_the_machine_is_one_of_every_gpu(simulated: Simulated) -> None:
    scenario = Scenario(gpus=[SimGpu(), SimGpu()], faults={"PowerUsage": "unknown"})
    with NvmlProgram(simulated(scenario)) as program:
        assert [program.error_code(POWER.format(index)) for index in (0, 1)] == [UNKNOWN, UNKNOWN]


def test_a_call_without_a_device_can_fail(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(faults={"nvmlDeviceGetCount": "unknown"}))) as program:
        assert program.error_code("N.nvmlDeviceGetCount()") == UNKNOWN


@pytest.mark.parametrize(
    "init, code",
    [("mismatch", 18), ("no-driver", 9), ("no-permission", 4), ("unknown", 999), ("blocked", 17)],
)
def test_init_returns_the_code_of_the_scenario(simulated: Simulated, init: str, code: int) -> None:
    with NvmlProgram(simulated(Scenario(init=init)), start=False) as program:
        assert program.error_code("N.nvmlInit()") == code


def test_without_a_scenario_no_driver_is_loaded(simulated: Simulated) -> None:
    env = simulated(Scenario())
    del env["FLEET_SMI_SIM"]
    with NvmlProgram(env, start=False) as program:
        assert program.error_code("N.nvmlInit()") == 9


def test_a_raw_value_is_in_every_number_of_the_result(simulated: Simulated) -> None:
    raw = {"PowerUsage": "value=4294967295", "UtilizationRates": "value=250"}
    raw["MemoryInfo"] = "value=18446744073709551615"
    raw["ComputeRunningProcesses"] = "value=1"
    gpu = SimGpu(faults=raw, processes=[SimProcess(pid=5)])
    with NvmlProgram(simulated(Scenario(gpus=[gpu]))) as program:
        assert program.evaluate(POWER.format(0)) == 4294967295
        assert program.evaluate("N.nvmlDeviceGetUtilizationRates(gpu(0))") == {
            "gpu": 250,
            "memory": 250,
        }
        memory = program.evaluate("N.nvmlDeviceGetMemoryInfo(gpu(0))")
        assert set(memory.values()) == {18446744073709551615}
        (process,) = program.evaluate("N.nvmlDeviceGetComputeRunningProcesses(gpu(0))")
        assert (process["pid"], process["usedGpuMemory"]) == (5, 1)


def test_a_slow_call_returns_after_its_delay(simulated: Simulated) -> None:
    with NvmlProgram(simulated(one_of_two({"PowerUsage": "slow=120"}))) as program:
        started = time.monotonic()
        assert program.evaluate(POWER.format(1)) == 70_000
        assert time.monotonic() - started >= 0.12


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_call_that_never_returns_blocks_until_the_program_is_killed(
    simulated: Simulated, number: signal.Signals
) -> None:
    with NvmlProgram(simulated(one_of_two({"PowerUsage": "never"}))) as program:
        assert program.evaluate(POWER.format(0)) == 70_000
        program.send(POWER.format(1))
        assert program.is_silent(0.3)
        program.process.send_signal(number)
        assert program.process.wait(timeout=60) == -number


def test_other_threads_continue_beside_a_call_that_never_returns(simulated: Simulated) -> None:
    with NvmlProgram(simulated(one_of_two({"PowerUsage": "never"}))) as program:
        stuck = "threading.Thread(target=N.nvmlDeviceGetPowerUsage, args=(gpu(1),), daemon=True)"
        program.evaluate("(threading := __import__('threading')) and None")
        program.evaluate(f"(stuck := {stuck}) and stuck.start()")
        assert (
            program.evaluate("[N.nvmlDeviceGetPowerUsage(gpu(0)) for _ in range(50)][-1]") == 70_000
        )
        assert program.evaluate("stuck.is_alive()")


def test_a_hung_call_returns_when_the_scenario_changes(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(faults={"*": "never"}))) as program:
        program.send("N.nvmlDeviceGetCount()")
        assert program.is_silent(0.2)
        simulated(Scenario(gpus=[SimGpu(), SimGpu()]))
        assert program.receive() == 2


def test_init_can_hang_too(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(faults={"nvmlInit": "never"})), start=False) as program:
        program.send("N.nvmlInit()")
        assert program.is_silent(0.2)
        simulated(Scenario(init="mismatch"))
        with pytest.raises(NvmlFailed, match="18"):
            program.receive()


def test_the_builder_refuses_a_fault_of_a_call_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="PowerUsege"):
        Scenario(faults={"PowerUsege": "lost"}).text()
