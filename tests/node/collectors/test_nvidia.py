"""NVIDIA GPUs as a snapshot has them: the simulated driver below the real binding."""

from pathlib import Path

import pytest
from msgspec.structs import asdict

from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler
from sim.build import build
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.machines import SimulatedMachine, UserProcesses
from tests.nvidia_kernel_files import write_nvidia_kernel_files


def test_instances_without_a_uuid_have_distinct_ids(machine: SimulatedMachine) -> None:
    def card() -> SimGpu:
        return SimGpu(mig=True, instances=[SimInstance(profile="1g.10gb", gi=1)])

    untold = card()
    untold.faults = {"UUID": "no-permission"}
    machine.set_scenario(Scenario(gpus=[untold, untold]))
    uuids = [one.uuid for gpu in machine.snapshot().gpus for one in gpu.instances]
    assert len(set(uuids)) == 2


def test_memory_shared_with_the_host_is_given_as_the_hosts(machine: SimulatedMachine) -> None:
    machine.set_scenario(
        SimGpu(name="NVIDIA GB10", memory_total=None, memory_used=None, addressing="ATS")
    )
    snapshot = machine.snapshot()
    (gpu,) = snapshot.gpus
    assert gpu.memory_shared
    assert gpu.memory_total_bytes == snapshot.host.memory_total_bytes
    assert gpu.memory_used_bytes == snapshot.host.memory_used_bytes


def test_a_lost_gpu_is_never_taken_for_one_that_shares_memory(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(name="NVIDIA GB10", addressing="ATS", faults={"*": "lost"}))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fault is not None
    assert not gpu.memory_shared
    assert gpu.memory_total_bytes is None


def test_one_gpu_may_sleep_while_others_are_read(machine: SimulatedMachine) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0", "0000:11:00.0")
    power = machine.root / "sys/bus/pci/devices/0000:10:00.0/power"
    (power / "runtime_status").write_text("suspended\n")
    (power / "control").write_text("auto\n")
    # Any call on the sleeping GPU would hang.
    sleeping = SimGpu(pci="00000000:10:00.0", faults={"**": "never"})
    machine.set_scenario(Scenario(gpus=[sleeping, SimGpu(pci="00000000:11:00.0", util_gpu=42)]))
    asleep, awake = machine.snapshot().gpus
    assert (asleep.asleep, asleep.uuid, asleep.temperature_celsius) == (True, "GPU-kernel-0", None)
    assert (awake.asleep, awake.busy_percent, awake.index) == (False, 42, 1)


SENTINEL = "value=4294967295"


@pytest.mark.parametrize(
    "call",
    [
        "RemappedRows",
        "RetiredPagesPendingStatus",
        "FieldValues",
        "MigMode",
        "PcieThroughput",
        "TotalEccErrors",
        "CurrentClocksEventReasons",
        "ComputeMode",
        "PerformanceState",
        "PersistenceMode",
        "FanSpeed",
        "Temperature",
        "PowerUsage",
        "EnforcedPowerLimit",
        "ClockInfo",
        "MaxClockInfo",
        "CurrPcieLinkGeneration",
        "CurrPcieLinkWidth",
        "EncoderUtilization",
        "UtilizationRates",
        "MaxMigDeviceCount",
    ],
)
def test_a_sentinel_is_believed_in_no_field(machine: SimulatedMachine, call: str) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB, faults={call: SENTINEL}))
    sampler = Sampler(Reader(spawn_worker), traffic=True)
    snapshot = sampler.sample()
    sampler.close()
    (gpu,) = snapshot.gpus
    assert gpu.fault is None
    assert not [v for v in asdict(gpu).values() if isinstance(v, (int, float)) and v > 1e12]
    assert gpu.throttle_reasons is None or len(gpu.throttle_reasons) < 3
    assert machine.verdict().state == "free"


def test_more_memory_used_than_there_is_is_not_believed(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_used=90 * GIB))
    (gpu,) = machine.snapshot().gpus
    assert gpu.memory_used_bytes is None
    assert gpu.unread["memory_used_bytes"] == "out of range: more than there is"


def test_a_card_without_memory_sensor_or_energy_counter_leaves_them_unknown(
    machine: SimulatedMachine,
) -> None:
    cards = [
        SimGpu(temperature_memory=71, energy=1_500_000),
        SimGpu(temperature_memory=None, energy=None),
        SimGpu(faults={"TotalEnergyConsumption": f"value={2**64 - 1}"}),
    ]
    machine.set_scenario(Scenario(gpus=cards))
    measured, unsupported, sentinel = machine.snapshot().gpus
    assert (measured.memory_temperature_celsius, measured.energy_joules) == (71, 1500.0)
    assert (unsupported.memory_temperature_celsius, unsupported.energy_joules) == (None, None)
    assert unsupported.unread == {}
    assert sentinel.energy_joules is None
    assert "out of range" in sentinel.unread["energy_joules"]


def test_a_cuda_version_that_cannot_be_is_unknown(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"CudaDriverVersion": SENTINEL}))
    assert machine.snapshot().host.cuda_version is None


@pytest.mark.parametrize("fault", ["unknown", SENTINEL, "not-supported"])
@pytest.mark.parametrize("call", ["MaxMigDeviceCount", "MigDeviceHandleByIndex"])
def test_what_is_wrong_with_mig_on_one_gpu_leaves_the_others_whole(
    machine: SimulatedMachine, call: str, fault: str
) -> None:
    instances = [SimInstance(profile="1g.10gb", gi=1)]
    ailing = SimGpu(mig=True, instances=instances, faults={call: fault})
    machine.set_scenario(Scenario(gpus=[SimGpu(), ailing, SimGpu()]))
    first, second, third = machine.poll().nodes[0].gpus
    assert (first.verdict.state, third.verdict.state) == ("free", "free")
    assert second.uuid


def test_added_and_removed_devices_are_identified_by_uuid(machine: SimulatedMachine) -> None:
    a, b, c = (SimGpu(uuid=f"GPU-{name}") for name in "abc")

    def seen() -> list[str]:
        return [gpu.uuid for gpu in machine.snapshot().gpus]

    machine.set_scenario(Scenario(gpus=[a, b, c]))
    assert seen() == ["GPU-a", "GPU-b", "GPU-c"]
    machine.set_scenario(Scenario(gpus=[b, c]))
    assert seen() == ["GPU-b", "GPU-c"]
    machine.set_scenario(Scenario(gpus=[a, b, c]))
    assert seen() == ["GPU-a", "GPU-b", "GPU-c"]


def test_a_gpu_that_wakes_is_read(machine: SimulatedMachine) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0", asleep=True)
    machine.set_scenario(SimGpu(pci="00000000:10:00.0", util_gpu=42))
    assert machine.snapshot().gpus[0].asleep
    power = machine.root / "sys/bus/pci/devices/0000:10:00.0/power"
    (power / "runtime_status").write_text("active\n")
    (gpu,) = machine.snapshot().gpus
    assert (gpu.asleep, gpu.busy_percent, gpu.fault) == (False, 42, None)


def test_a_driver_exchanged_under_a_watcher_is_a_mismatch(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu())
    machine.poll()
    machine.set_scenario(SimGpu(faults={"*": "18"}))
    (gpu,) = machine.poll(10).nodes[0].gpus
    assert gpu.verdict.state == "unknown"
    assert "do not match: reload the driver or reboot" in gpu.verdict.reason


def test_a_count_of_devices_that_cannot_be_is_bounded(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"Count": "value=100000"}))
    assert len(machine.snapshot().gpus) <= 256


def test_mig_instances_come_with_their_processes(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    pid = people.start()
    gpu = SimGpu(
        mig=True,
        instances=[
            SimInstance(profile="1g.10gb", gi=7, uuid="MIG-a", memory_used=3 * GIB),
            SimInstance(profile="2g.20gb", gi=9, uuid="MIG-b"),
        ],
        processes=[SimProcess(pid=pid, memory=2 * GIB, gi=7, ci=0)],
    )
    machine.set_scenario(gpu)
    (whole,) = machine.snapshot().gpus
    first, second = whole.instances
    assert (first.uuid, first.profile, first.gpu_instance_id) == ("MIG-a", "1g.10gb", 7)
    assert [one.pid for one in first.processes or ()] == [pid]
    assert first.processes is not None
    assert first.processes[0].user is not None
    assert second.processes == ()
    assert whole.busy_percent is None


@pytest.mark.parametrize("branch", [418, 470, 535])
def test_a_library_without_the_newer_functions_gives_the_right_pids(
    machine: SimulatedMachine,
    people: UserProcesses,
    sim_lib: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    branch: int,
) -> None:
    build(tmp_path / "old", branch, objects=sim_lib / "objects")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "old"))
    processes = [SimProcess(pid=people.start(), memory=number * GIB) for number in (1, 2, 3)]
    machine.set_scenario(Scenario(driver=f"{branch}.99.01", gpus=[SimGpu(processes=processes)]))
    (gpu,) = machine.snapshot().gpus
    assert {(one.pid, one.gpu_memory_bytes) for one in gpu.processes or ()} == {
        (one.pid, one.memory) for one in processes
    }


def test_more_processes_than_the_buffer_holds_are_all_listed(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    pid = people.start()
    crowd = [
        SimProcess(pid=pid, memory=MIB),
        *(SimProcess(pid=n, memory=MIB) for n in range(400_000, 400_300)),
    ]
    machine.set_scenario(SimGpu(processes=crowd))
    (gpu,) = machine.snapshot().gpus
    assert len(gpu.processes or ()) == 301
