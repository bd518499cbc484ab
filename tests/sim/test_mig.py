"""A GPU with MIG instances."""

from __future__ import annotations

from sim.scenario import GIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.sim.fixtures import Simulated
from tests.sim.nvml_program import NvmlProgram

NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT = 3, 6, 2
BIG = SimInstance(
    profile="3g.40gb",
    gi=2,
    uuid="MIG-00000000-0000-0000-0000-000000000002",
    memory_total=40 * GIB,
    memory_used=2 * GIB,
    slices=3,
    compute_slices=3,
    multiprocessors=60,
)
SMALL = SimInstance(profile="1g.10gb", gi=9, uuid="MIG-00000000-0000-0000-0000-000000000009")
SPLIT = SimGpu(
    mig=True,
    util_gpu=50,
    instances=[BIG, SMALL],
    processes=[
        SimProcess(pid=10, memory=2 * GIB, gi=2, ci=0, sm=5),
        SimProcess(pid=11, memory=1 * GIB, gi=9, ci=0),
    ],
)
MIG = "N.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), {})"


PARENT = f"N.nvmlDeviceGetDeviceHandleFromMigDeviceHandle({MIG.format(0)})"
READINGS = {
    "N.nvmlDeviceGetMigMode(gpu(0))": [1, 1],
    "N.nvmlDeviceGetMaxMigDeviceCount(gpu(0))": 7,
    f"N.nvmlDeviceGetUUID({MIG.format(0)})": BIG.uuid,
    f"N.nvmlDeviceGetName({MIG.format(0)})": f"{SPLIT.name} MIG 3g.40gb",
    f"N.nvmlDeviceGetIndex({MIG.format(1)})": 1,
    f"N.nvmlDeviceGetGpuInstanceId({MIG.format(1)})": 9,
    f"N.nvmlDeviceGetComputeInstanceId({MIG.format(1)})": 0,
    f"N.nvmlDeviceIsMigDeviceHandle({MIG.format(1)})": 1,
    "N.nvmlDeviceIsMigDeviceHandle(gpu(0))": 0,
    f"N.nvmlDeviceGetMemoryInfo({MIG.format(0)}).used": 2 * GIB,
    f"N.nvmlDeviceGetAttributes_v2({MIG.format(0)}).gpuInstanceSliceCount": 3,
    f"N.nvmlDeviceGetAttributes_v2({MIG.format(0)}).multiprocessorCount": 60,
    f"N.nvmlDeviceGetIndex(N.nvmlDeviceGetHandleByUUID('{SMALL.uuid}'))": 1,
    f"N.nvmlDeviceGetUUID({PARENT})": "GPU-00000000-0000-4000-8000-000000000000",
}


def test_an_instance_has_its_own_readings(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SPLIT]))) as program:
        assert {query: program.evaluate(query) for query in READINGS} == READINGS


def test_each_instance_lists_its_own_processes_and_the_gpu_lists_all(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SPLIT]))) as program:
        lists = [
            program.evaluate(f"N.nvmlDeviceGetComputeRunningProcesses({device})")
            for device in ("gpu(0)", MIG.format(0), MIG.format(1))
        ]
    places = [[(p["pid"], p["gpuInstanceId"], p["computeInstanceId"]) for p in of] for of in lists]
    assert places == [[(10, 2, 0), (11, 9, 0)], [(10, 2, 0)], [(11, 9, 0)]]


REFUSED = {
    "N.nvmlDeviceGetUtilizationRates(gpu(0))": NOT_SUPPORTED,
    "N.nvmlDeviceGetEncoderUtilization(gpu(0))": NOT_SUPPORTED,
    "N.nvmlDeviceGetProcessUtilization(gpu(0), 0)": NOT_SUPPORTED,
    f"N.nvmlDeviceGetTemperature({MIG.format(0)}, 0)": NOT_SUPPORTED,
    f"N.nvmlDeviceGetPowerUsage({MIG.format(0)})": NOT_SUPPORTED,
    MIG.format(2): NOT_FOUND,
    "N.nvmlDeviceGetGpuInstanceId(gpu(0))": INVALID_ARGUMENT,
    "N.nvmlDeviceGetPowerUsage(gpu(0))": 0,
}


def test_queries_not_supported_for_a_mig_gpu_or_instance(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SPLIT]))) as program:
        assert {query: program.error_code(query) for query in REFUSED} == REFUSED


def test_a_fault_of_the_gpu_is_one_of_its_instances(simulated: Simulated) -> None:
    gpu = SimGpu(mig=True, instances=[SMALL], faults={"MemoryInfo": "lost"})
    with NvmlProgram(simulated(Scenario(gpus=[gpu]))) as program:
        assert program.error_code(f"N.nvmlDeviceGetMemoryInfo({MIG.format(0)})") == 15
