"""nvidia-ml-py reads the values of the scenario."""

from __future__ import annotations

from typing import Any

import pytest

from sim.scenario import GIB, MIB, Scenario, SimGpu, SimProcess
from tests.sim.fixtures import Simulated
from tests.sim.nvml_program import NvmlProgram

NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 3, 6, 7
UNINITIALIZED, VERSION_MISMATCH = 1, 25

BUSY = SimGpu(
    name="NVIDIA A100-SXM4-80GB",
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    pci="0000000F:C1:00.0",
    serial="0324018045603",
    minor=3,
    brand="tesla",
    architecture="ampere",
    compute_capability="8.0",
    memory_total=80 * GIB,
    memory_used=12 * GIB,
    memory_reserved=600 * MIB,
    util_gpu=87,
    util_memory=41,
    util_encoder=5,
    util_decoder=6,
    temperature=-4,
    temperature_memory=71,
    fan=33,
    fans=2,
    power_usage=301_250,
    power_limit=400_000,
    clock_sm=1410,
    clock_max_memory=1593,
    pstate=2,
    throttle="sw-power-cap hw-thermal",
    ecc_uncorrected_volatile=2,
    ecc_corrected_aggregate=11,
    retired_sbe=3,
    retired_pending=True,
    remapped_corrected=1,
    remapped_pending=True,
    recovery="drain-and-reset",
    pcie_gen=4,
    pcie_width=8,
    pcie_rx=1200,
    pcie_tx=3400,
    persistence=False,
    compute_mode="exclusive-process",
    addressing="ATS",
    energy=987_654_321_012,
)


READINGS = {
    "N.nvmlSystemGetDriverVersion()": "590.48.01",
    "N.nvmlSystemGetCudaDriverVersion_v2()": 13010,
    "N.nvmlDeviceGetCount()": 2,
    "N.nvmlDeviceGetName(gpu(1))": BUSY.name,
    "N.nvmlDeviceGetUUID(gpu(1))": BUSY.uuid,
    "N.nvmlDeviceGetSerial(gpu(1))": BUSY.serial,
    "N.nvmlDeviceGetIndex(gpu(1))": 1,
    "N.nvmlDeviceGetMinorNumber(gpu(1))": 3,
    "N.nvmlDeviceGetBrand(gpu(1)) == N.NVML_BRAND_TESLA": True,
    "N.nvmlDeviceGetArchitecture(gpu(1)) == N.NVML_DEVICE_ARCH_AMPERE": True,
    "N.nvmlDeviceGetCudaComputeCapability(gpu(1))": [8, 0],
    "N.nvmlDeviceGetPciInfo(gpu(1)).busId": BUSY.pci,
    "N.nvmlDeviceGetPciInfo(gpu(1)).busIdLegacy": "000F:C1:00.0",
    "N.nvmlDeviceGetPciInfo(gpu(1)).domain": 15,
    "N.nvmlDeviceGetUtilizationRates(gpu(1))": {"gpu": 87, "memory": 41},
    "N.nvmlDeviceGetEncoderUtilization(gpu(1))[0]": 5,
    "N.nvmlDeviceGetDecoderUtilization(gpu(1))[0]": 6,
    "N.nvmlDeviceGetTemperatureV(gpu(1), N.NVML_TEMPERATURE_GPU)": -4,
    "N.nvmlDeviceGetFanSpeed(gpu(1))": 33,
    "N.nvmlDeviceGetFanSpeed_v2(gpu(1), 1)": 33,
    "N.nvmlDeviceGetNumFans(gpu(1))": 2,
    "N.nvmlDeviceGetPowerUsage(gpu(1))": 301_250,
    "N.nvmlDeviceGetEnforcedPowerLimit(gpu(1))": 400_000,
    "N.nvmlDeviceGetPowerManagementLimitConstraints(gpu(1))": [200_000, 700_000],
    "N.nvmlDeviceGetClockInfo(gpu(1), N.NVML_CLOCK_SM)": 1410,
    "N.nvmlDeviceGetMaxClockInfo(gpu(1), N.NVML_CLOCK_MEM)": 1593,
    "N.nvmlDeviceGetPerformanceState(gpu(1))": 2,
    "N.nvmlDeviceGetCurrentClocksEventReasons(gpu(1))": 0x44,
    "N.nvmlDeviceGetTotalEccErrors(gpu(1), 1, 0)": 2,
    "N.nvmlDeviceGetTotalEccErrors(gpu(1), 0, 1)": 11,
    "len(N.nvmlDeviceGetRetiredPages(gpu(1), 0))": 3,
    "N.nvmlDeviceGetRetiredPagesPendingStatus(gpu(1))": 1,
    "N.nvmlDeviceGetRemappedRows(gpu(1))": [1, 0, 1, 0],
    "N.nvmlDeviceGetCurrPcieLinkGeneration(gpu(1))": 4,
    "N.nvmlDeviceGetMaxPcieLinkGeneration(gpu(1))": 5,
    "N.nvmlDeviceGetCurrPcieLinkWidth(gpu(1))": 8,
    "N.nvmlDeviceGetPcieThroughput(gpu(1), N.NVML_PCIE_UTIL_RX_BYTES)": 1200,
    "N.nvmlDeviceGetPcieThroughput(gpu(1), N.NVML_PCIE_UTIL_TX_BYTES)": 3400,
    "N.nvmlDeviceGetPersistenceMode(gpu(1))": 0,
    "N.nvmlDeviceGetComputeMode(gpu(1))": 3,
    "N.nvmlDeviceGetAddressingMode(gpu(1)) == N.NVML_DEVICE_ADDRESSING_MODE_ATS": True,
    "N.nvmlDeviceGetTotalEnergyConsumption(gpu(1))": 987_654_321_012,
    "N.nvmlDeviceGetMigMode(gpu(1))": [0, 0],
}


def test_every_reading_equals_the_scenario(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(), BUSY]))) as program:
        assert {query: program.evaluate(query) for query in READINGS} == READINGS


def test_each_field_value_has_its_own_return_code(simulated: Simulated) -> None:
    fields = "[N.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, N.NVML_FI_DEV_MEMORY_TEMP, 1]"
    with NvmlProgram(simulated(Scenario(gpus=[BUSY]))) as program:
        values = program.evaluate(
            f"[(v.nvmlReturn, v.value.uiVal) for v in N.nvmlDeviceGetFieldValues(gpu(0), {fields})]"
        )
    assert values == [[0, 4], [0, 71], [NOT_SUPPORTED, 0]]


def test_only_the_newer_memory_call_separates_reserved_from_used(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[BUSY]))) as program:
        old = program.evaluate("N.nvmlDeviceGetMemoryInfo(gpu(0))")
        new = program.evaluate("N.nvmlDeviceGetMemoryInfo(gpu(0), version=N.nvmlMemory_v2)")
    assert old["used"] == 12 * GIB + 600 * MIB
    assert (new["used"], new["reserved"]) == (12 * GIB, 600 * MIB)
    assert new["free"] == old["free"] == 80 * GIB - old["used"]


@pytest.mark.parametrize(
    "absent, expression",
    [
        ("memory_total", "N.nvmlDeviceGetMemoryInfo(gpu(0))"),
        ("util_gpu", "N.nvmlDeviceGetUtilizationRates(gpu(0))"),
        ("fan", "N.nvmlDeviceGetFanSpeed(gpu(0))"),
        ("power_usage", "N.nvmlDeviceGetPowerUsage(gpu(0))"),
        ("power_limit", "N.nvmlDeviceGetPowerManagementLimit(gpu(0))"),
        ("temperature", "N.nvmlDeviceGetTemperature(gpu(0), 0)"),
        ("ecc", "N.nvmlDeviceGetTotalEccErrors(gpu(0), 0, 0)"),
        ("serial", "N.nvmlDeviceGetSerial(gpu(0))"),
        ("mig", "N.nvmlDeviceGetMigMode(gpu(0))"),
        ("throttle", "N.nvmlDeviceGetCurrentClocksThrottleReasons(gpu(0))"),
    ],
)
def test_missing_readings_are_not_supported(
    simulated: Simulated, absent: str, expression: str
) -> None:
    # Every field of the builder takes None, which a type checker cannot see by name.
    gpu: Any = SimGpu()
    setattr(gpu, absent, None)
    with NvmlProgram(simulated(Scenario(gpus=[gpu]))) as program:
        assert program.error_code(expression) == NOT_SUPPORTED


@pytest.mark.parametrize(
    "expression",
    [
        f"N.nvmlDeviceGetHandleByUUID('{BUSY.uuid}')",
        f"N.nvmlDeviceGetHandleBySerial('{BUSY.serial}')",
        "N.nvmlDeviceGetHandleByPciBusId('000F:C1:00.0')",
        "N.nvmlDeviceGetHandleByPciBusId('0000000f:c1:00.0')",
    ],
)
def test_a_handle_is_found_by_every_identifier(simulated: Simulated, expression: str) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(), BUSY]))) as program:
        assert program.evaluate(f"N.nvmlDeviceGetIndex({expression})") == 1


def test_an_unknown_uuid_is_not_found(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario())) as program:
        assert program.error_code("N.nvmlDeviceGetHandleByUUID('GPU-none')") == NOT_FOUND


def test_calls_after_shutdown_are_refused_until_the_next_init(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario())) as program:
        program.evaluate("N.nvmlShutdown()")
        assert program.error_code("N.nvmlDeviceGetCount()") == UNINITIALIZED
        program.evaluate("N.nvmlInit()")
        assert program.evaluate("N.nvmlDeviceGetCount()") == 1


def test_a_struct_of_another_version_is_refused(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario())) as program:
        call = "N._nvmlGetFunctionPointer('nvmlDeviceGetMemoryInfo_v2')"
        memory = "ctypes.byref(N.c_nvmlMemory_v2_t(version=0x03000030))"
        assert program.evaluate(f"{call}(gpu(0), {memory})") == VERSION_MISMATCH


PROCESSES = [
    SimProcess(pid=100, memory=3 * GIB, sm=50, mem=20, enc=1, dec=2),
    SimProcess(pid=0, memory=1 * GIB),
    SimProcess(pid=101, kind="graphics", memory=7 * MIB),
    SimProcess(pid=102, kind="mps", memory=None, sm=9),
]


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("Compute", [(100, 3 * GIB), (0, 1 * GIB)]),
        ("Graphics", [(101, 7 * MIB)]),
        ("MPSCompute", [(102, None)]),
    ],
)
@pytest.mark.parametrize("version", ["_v2", "_v3"])
def test_processes_are_listed_by_kind(
    simulated: Simulated, kind: str, version: str, expected: list[tuple[int, int | None]]
) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(processes=PROCESSES)]))) as program:
        found = program.evaluate(f"N.nvmlDeviceGet{kind}RunningProcesses{version}(gpu(0))")
    assert [(process["pid"], process["usedGpuMemory"]) for process in found] == expected
    assert {process["gpuInstanceId"] for process in found} == {0xFFFFFFFF}


@pytest.mark.parametrize("room, code", [(0, INSUFFICIENT_SIZE), (1, INSUFFICIENT_SIZE), (2, 0)])
def test_a_short_buffer_returns_the_needed_length(
    simulated: Simulated, room: int, code: int
) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(processes=PROCESSES)]))) as program:
        program.evaluate(f"(count := ctypes.c_uint({room})) and None")
        program.evaluate(f"(room := (N.c_nvmlProcessInfo_v2_t * {room})()) and None")
        call = "N._nvmlGetFunctionPointer('nvmlDeviceGetComputeRunningProcesses_v3')"
        assert program.evaluate(f"{call}(gpu(0), ctypes.byref(count), room)") == code
        assert program.evaluate("count.value") == 2


def test_the_first_form_of_the_process_list_has_no_instances(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(processes=PROCESSES)]))) as program:
        program.evaluate("(count := ctypes.c_uint(8)) and None")
        program.evaluate("(room := (ctypes.c_ulonglong * 16)()) and None")
        call = "N._nvmlGetFunctionPointer('nvmlDeviceGetComputeRunningProcesses')"
        assert program.evaluate(f"{call}(gpu(0), ctypes.byref(count), room)") == 0
        assert program.evaluate("list(room)[:5]") == [100, 3 * GIB, 0, 1 * GIB, 0]


def test_only_processes_with_a_known_load_have_samples(simulated: Simulated) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(processes=PROCESSES)]))) as program:
        found = program.evaluate("N.nvmlDeviceGetProcessUtilization(gpu(0), 0)")
    loads = {sample["pid"]: (sample["smUtil"], sample["memUtil"]) for sample in found}
    assert loads == {100: (50, 20), 102: (9, 0)}


@pytest.mark.parametrize(
    "processes, since",
    [([], "0"), (PROCESSES[1:3], "0"), (PROCESSES, "int(time.time() + 60) * 10**6")],
)
def test_without_newer_samples_the_call_returns_not_found(
    simulated: Simulated, processes: list[SimProcess], since: str
) -> None:
    with NvmlProgram(simulated(Scenario(gpus=[SimGpu(processes=processes)]))) as program:
        assert (
            program.error_code(f"N.nvmlDeviceGetProcessUtilization(gpu(0), {since})") == NOT_FOUND
        )
