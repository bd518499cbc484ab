"""`fleet-smi --json` compared with the scenario of the simulated driver, field by field."""

import pwd
from dataclasses import replace
from typing import Any

import pytest

from sim.scenario import GIB, MIB, Scenario, SimGpu, SimProcess
from tests.cli.program import run_gpus, run_json
from tests.machines import USERS, UserProcesses, require_root
from tests.sim.fixtures import Simulated

MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB")


def machine_of_eight(people: UserProcesses) -> Scenario:
    """Eight GPUs with different figures; six processes of three users on five of them."""
    cards = [
        SimGpu(
            name=MODELS[number % 2],
            uuid=f"GPU-{number}{number}{number}",
            pci=f"00000000:{0x20 + number:02X}:00.0",
            memory_total=(80 - number) * GIB,
            memory_used=(10 + number) * GIB,
            util_gpu=90 - number,
            util_memory=40 - number,
            util_encoder=number,
            util_decoder=number + 1,
            temperature=50 + number,
            fan=20 + number,
            fans=1,
            power_usage=(300 + number) * 1000,
            power_limit=(700 - number) * 1000,
            clock_sm=1500 + number,
            clock_max_sm=1980 + number,
            clock_memory=2000 + number,
            clock_max_memory=2619 + number,
            pstate=number,
            throttle="sw-power-cap" if number % 2 else "none",
            ecc_corrected_volatile=number,
            pcie_gen=4,
            pcie_gen_max=5,
            pcie_width=8,
            pcie_width_max=16,
            pcie_rx=1000 + number,
            pcie_tx=2000 + number,
            nvlink_links=1 + number,
            nvlink_active=number,
            persistence=number % 2 == 0,
            compute_mode="exclusive-process" if number == 3 else "default",
        )
        for number in range(8)
    ]
    for number, gpu in enumerate((0, 1, 2, 3, 4, 4)):
        pid = people.start("sleep", str(600 + number), user=USERS[number % 3])
        cards[gpu].processes.append(SimProcess(pid=pid, memory=(2 + number) * GIB, sm=10 + number))
    return Scenario(gpus=cards, driver="590.48.01", cuda="13.1")


def as_json(index: int, gpu: SimGpu) -> dict[str, Any]:
    """Return the JSON expected for a GPU of the scenario."""
    assert gpu.power_usage is not None
    assert gpu.power_limit is not None
    assert gpu.pcie_rx is not None
    assert gpu.pcie_tx is not None
    assert gpu.energy is not None
    return {
        "uuid": gpu.uuid,
        "uuid_is_made": False,
        "index": index,
        "vendor": "nvidia",
        "name": gpu.name,
        "pci_bus_id": gpu.pci,
        "memory_used_bytes": gpu.memory_used,
        "memory_total_bytes": gpu.memory_total,
        "memory_shared": False,
        "busy_percent": gpu.util_gpu,
        "memory_busy_percent": gpu.util_memory,
        "encoder_percent": gpu.util_encoder,
        "decoder_percent": gpu.util_decoder,
        "temperature_celsius": gpu.temperature,
        "fan_percent": gpu.fan,
        "power_watts": gpu.power_usage / 1000,
        "power_limit_watts": gpu.power_limit / 1000,
        "sm_clock_mhz": gpu.clock_sm,
        "sm_clock_max_mhz": gpu.clock_max_sm,
        "memory_clock_mhz": gpu.clock_memory,
        "memory_clock_max_mhz": gpu.clock_max_memory,
        "performance_state": f"P{gpu.pstate}",
        "throttle_reasons": ["sw_power_cap"] if gpu.throttle == "sw-power-cap" else [],
        "ecc_corrected": gpu.ecc_corrected_volatile,
        "ecc_uncorrected": 0,
        "ecc_contained": True,
        "reset_pending": None,
        "pcie_generation": 4,
        "pcie_generation_max": 5,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "pcie_rx_bytes_per_second": gpu.pcie_rx * 1000,
        "pcie_tx_bytes_per_second": gpu.pcie_tx * 1000,
        "nvlink_links": gpu.nvlink_links,
        "nvlink_links_active": gpu.nvlink_active,
        "nvlink_rx_bytes_per_second": None,  # the growth of counters: one reading has none
        "nvlink_tx_bytes_per_second": None,
        "memory_temperature_celsius": gpu.temperature_memory,
        "energy_joules": gpu.energy / 1000,
        "persistence": gpu.persistence,
        "compute_mode": (gpu.compute_mode or "").replace("-", "_"),
        "mig_mode": False,
        "asleep": False,
        "instances": [],
        "more_processes": 0,
        "processes_hidden": False,
        "reported_by": None,
        "fault": None,
        "lease": None,
        "unread": {},
    }


def test_every_field_has_the_drivers_value(people: UserProcesses, simulated: Simulated) -> None:
    require_root()
    scenario = machine_of_eight(people)
    answer = run_json(env=simulated(scenario))
    (node,) = answer["nodes"]
    assert node["host"]["driver_version"] == "590.48.01"
    assert node["host"]["cuda_version"] == "13.1"
    for index, (gpu, actual) in enumerate(zip(scenario.gpus, node["gpus"], strict=True)):
        del actual["verdict"]
        processes = actual.pop("processes")
        assert actual == as_json(index, gpu)
        assert [each["pid"] for each in processes] == [each.pid for each in gpu.processes]
        for one, expected in zip(processes, gpu.processes, strict=True):
            assert_process(one, expected)


def assert_process(actual: dict[str, Any], expected: SimProcess) -> None:
    owner = pwd.getpwnam(actual["user"])
    assert actual["user"] in USERS
    assert actual["uid"] == owner.pw_uid
    assert actual["gpu_memory_bytes"] == expected.memory
    assert actual["busy_percent"] == expected.sm
    assert actual["kind"] == "compute"
    assert actual["name"] == "sleep"
    assert actual["command"].startswith("sleep 60")
    assert actual["hidden"] is False
    assert actual["host_memory_bytes"] > 0


def test_the_summary_counts_the_states_of_the_rows(
    people: UserProcesses, simulated: Simulated
) -> None:
    require_root()
    answer = run_json(env=simulated(machine_of_eight(people)))
    states = [gpu["verdict"]["state"] for gpu in answer["nodes"][0]["gpus"]]
    counts = {state: states.count(state) for state in set(states)}
    assert answer["summary"] == {
        "gpus": 8,
        "nodes": 1,
        "nodes_reporting": 1,
        "free_instances": 0,
        **dict.fromkeys(("free", "leased", "busy", "held", "ghost", "broken", "unknown"), 0),
        **counts,
    }


FAULTS = {
    0: {"*": "lost"},
    1: {"PowerUsage": "not-supported"},
    2: {
        "ComputeRunningProcesses": "no-permission",
        "GraphicsRunningProcesses": "no-permission",
        "MPSComputeRunningProcesses": "no-permission",
    },
}


@pytest.mark.parametrize("ailing", FAULTS)
def test_a_fault_of_one_gpu_does_not_affect_the_others(
    people: UserProcesses, simulated: Simulated, ailing: int
) -> None:
    require_root()
    scenario = machine_of_eight(people)
    scenario.gpus[ailing] = replace(scenario.gpus[ailing], faults=FAULTS[ailing])
    actual = run_gpus(env=simulated(scenario))
    for index, gpu in enumerate(scenario.gpus):
        if index != ailing:
            del actual[index]["verdict"]
            assert len(actual[index].pop("processes")) == len(gpu.processes)
            assert actual[index] == as_json(index, gpu)
    assert len(actual) == 8


def test_each_fault_is_reported_on_its_gpu(people: UserProcesses, simulated: Simulated) -> None:
    require_root()
    scenario = machine_of_eight(people)
    for index, faults in FAULTS.items():
        scenario.gpus[index] = replace(scenario.gpus[index], faults=faults)
    lost, without_power, refused = run_gpus(env=simulated(scenario))[:3]
    assert (lost["verdict"]["state"], lost["fault"]["kind"]) == ("broken", "lost")
    assert without_power["power_watts"] is None
    assert without_power["power_limit_watts"] == 699.0
    assert refused["processes"] is None
    assert refused["unread"]["processes"] == "insufficient permissions"


@pytest.mark.parametrize("driver", ["418.87.00", "470.57.02", "535.54.03", "590.48.01"])
def test_old_and_new_drivers_give_the_same_pids_and_memory(
    people: UserProcesses, simulated: Simulated, driver: str
) -> None:
    processes = [SimProcess(pid=people.start(), memory=(number + 1) * GIB) for number in range(3)]
    quirks = ["wide-v3"] if driver == "535.54.03" else []
    gpu = SimGpu(memory_used=7 * GIB, processes=processes)
    (actual,) = run_gpus(env=simulated(Scenario(gpus=[gpu], driver=driver, quirks=quirks)))
    assert {(each["pid"], each["gpu_memory_bytes"]) for each in actual["processes"]} == {
        (each.pid, each.memory) for each in processes
    }


def test_memory_reserved_by_the_driver_does_not_count_as_used(simulated: Simulated) -> None:
    gpu = SimGpu(memory_used=4 * MIB, memory_reserved=600 * MIB)
    (actual,) = run_gpus(env=simulated(Scenario(gpus=[gpu])))
    assert actual["memory_used_bytes"] == 4 * MIB
    assert actual["verdict"]["state"] == "free"
