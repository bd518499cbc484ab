"""How parts become a snapshot: joins, fallbacks, and what happens when a part is missing."""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, ReadFailed
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.node.collecting import QUICK, Sampler
from fleet_smi.node.reader import Answer, Child, Reader, spawn
from fleet_smi.node.reading import Request
from sim.build import build
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.machines import Machine, People, wait_until
from tests.trees import kernel_with


class ScriptedReader(Reader):
    """A reader whose answers are written down beforehand."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(self._nobody)
        self.answers = answers
        self.asked: list[str] = []

    def ask(
        self, requests: Sequence[Request], patience_seconds: float, whole_seconds: float
    ) -> list[Answer]:
        return [self._answer(subject) for subject, _ in requests]

    def _answer(self, subject: str) -> Answer:
        self.asked.append(subject)
        answer = self.answers.get(subject, NotPresent(f"no {subject} here"))
        if isinstance(answer, CollectError):
            return Answer(None, answer, 0.001)
        return Answer(answer, None, 0.001)

    @staticmethod
    def _nobody() -> Child:
        raise AssertionError("a scripted reader starts no child")


def device(pid: int) -> dict[str, Any]:
    lists = {"errors": {}, "compute": [(pid, GIB, None, None)], "graphics": [], "mps": []}
    values = {"uuid": "GPU-a", "name": "H100", "memory": (2 * GIB, 80 * GIB, 0)}
    return {"index": 0, "values": values, "errors": {}, "processes": lists}


def nvidia(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"driver": "590.48.01", "cuda": 13010, "devices": list(devices), "kernel": []}


HOST: dict[str, Any] = {
    "hostname": "gpu07",
    "kernel": "6",
    "machine_id": "m",
    "boot_id": None,
    "booted_at": None,
    "load": None,
    "memory": None,
    "cpu_count": 1,
    "cpu_percent": None,
}


def facts(started_at: float) -> dict[str, Any]:
    return {
        "uid": 1000,
        "user": "alice",
        "cgroup": None,
        "slurm_job": None,
        "name": b"python",
        "command": b"python\0",
        "state": "S",
        "started_at": started_at,
        "cpu_percent": None,
        "memory": 1,
    }


def outcomes(snapshot: Snapshot) -> dict[str, str]:
    return {run.name: run.outcome for run in snapshot.runs}


def test_people_are_joined_to_their_pids() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes={7: facts(time.time() - 60)})
    (gpu,) = Sampler(reader).take().gpus
    assert [(one.user, one.gpu_memory_bytes) for one in gpu.processes or ()] == [("alice", GIB)]


def test_a_pid_that_is_gone_or_reused_is_hidden_and_nobody_is_blamed() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes={7: None})
    (gpu,) = Sampler(reader).take().gpus
    assert gpu.processes is not None
    (process,) = gpu.processes
    assert (process.hidden, process.user, process.uid, process.command) == (True, None, None, None)
    assert process.gpu_memory_bytes == GIB


def test_when_nobody_can_be_asked_about_pids_they_are_hidden() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes=ReadFailed("no /proc"))
    snapshot = Sampler(reader).take()
    assert [one.hidden for one in snapshot.gpus[0].processes or ()] == [True]
    assert outcomes(snapshot)["processes"] == "failed"


def test_a_bug_in_one_collector_does_not_blind_the_node() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), amd={"nonsense": 1})
    snapshot = Sampler(reader).take()
    assert len(snapshot.gpus) == 1
    assert outcomes(snapshot)["amd"] == "failed"
    assert "bug" in next(run.detail for run in snapshot.runs if run.name == "amd")


def test_where_nvml_tells_nothing_else_is_asked() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)))
    Sampler(reader).take()
    assert not {"nvidia_smi", "nvidia_kernel"} & set(reader.asked)


def test_a_device_without_a_uuid_is_its_nodes_own() -> None:
    unnamed = device(7)
    del unnamed["values"]["uuid"]
    reader = ScriptedReader(nvidia=nvidia(unnamed), host=HOST)
    snapshot = Sampler(reader).take()
    assert snapshot.gpus[0].uuid == f"GPU-of-unknown-uuid-0@{snapshot.node_id}"
    assert snapshot.gpus[0].uuid_is_made


def test_a_node_that_does_not_tell_who_it_is_once_is_still_the_same() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), host=HOST)
    sampler = Sampler(reader)
    first = sampler.take()
    reader.answers["host"] = NotAnswering("did not answer")
    second = sampler.take()
    assert (second.node_id, second.name) == (first.node_id, first.name)


def test_instances_without_a_uuid_are_told_apart(machine: Machine) -> None:
    def card() -> SimGpu:
        return SimGpu(mig=True, instances=[SimInstance(profile="1g.10gb", gi=1)])

    untold = card()
    untold.faults = {"UUID": "no-permission"}
    machine.play(Scenario(gpus=[untold, untold]))
    uuids = [one.uuid for gpu in machine.snapshot().gpus for one in gpu.instances]
    assert len(set(uuids)) == 2


def test_nvidia_smi_gives_up_before_it_is_given_up(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NVML takes its time to fail, and then nvidia-smi hangs.
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    machine.play(Scenario(init="unknown", faults={"nvmlInit": "slow=1500"}))
    snapshot = machine.snapshot()
    assert outcomes(snapshot)["nvidia_smi"] == "failed"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_snapshots_are_numbered_and_carry_the_machines_name(machine: Machine) -> None:
    machine.play(SimGpu())
    first, second = machine.snapshot(), machine.snapshot()
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.name == os.uname().nodename
    assert first.node_id == second.node_id


def test_memory_shared_with_the_host_is_given_as_the_hosts(machine: Machine) -> None:
    machine.play(SimGpu(name="NVIDIA GB10", memory_total=None, memory_used=None, addressing="ATS"))
    snapshot = machine.snapshot()
    (gpu,) = snapshot.gpus
    assert gpu.memory_shared
    assert gpu.memory_total_bytes == snapshot.host.memory_total_bytes
    assert gpu.memory_used_bytes == snapshot.host.memory_used_bytes


def test_a_lost_gpu_is_never_taken_for_one_that_shares_memory(machine: Machine) -> None:
    machine.play(SimGpu(name="NVIDIA GB10", addressing="ATS", faults={"*": "lost"}))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fault is not None
    assert not gpu.memory_shared
    assert gpu.memory_total_bytes is None


def test_one_gpu_may_sleep_while_others_are_read(machine: Machine) -> None:
    kernel_with(machine.root, "0000:10:00.0", "0000:11:00.0")
    power = machine.root / "sys/bus/pci/devices/0000:10:00.0/power"
    (power / "runtime_status").write_text("suspended\n")
    (power / "control").write_text("auto\n")
    # Whoever touched the sleeping one would hang.
    sleeping = SimGpu(pci="00000000:10:00.0", faults={"**": "never"})
    machine.play(Scenario(gpus=[sleeping, SimGpu(pci="00000000:11:00.0", util_gpu=42)]))
    asleep, awake = machine.snapshot().gpus
    assert (asleep.asleep, asleep.uuid, asleep.temperature_celsius) == (True, "GPU-kernel-0", None)
    assert (awake.asleep, awake.busy_percent, awake.index) == (False, 42, 1)


def only_nvidia_smi(lib_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose NVML library is missing and whose nvidia-smi works."""
    folder.mkdir()
    shutil.copy(lib_dir / "nvidia-smi", folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


# The driver tells these through one of the two ways only.
NOT_IN_BOTH = {"addressing", "pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"}


def comparable(gpu: Gpu) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(gpu).items() if key not in NOT_IN_BOTH}
    fields["processes"] = [(one.pid, one.kind, one.gpu_memory_bytes) for one in gpu.processes or ()]
    return fields


@pytest.mark.parametrize("driver", ["470.82.01", "535.161.07", "570.86.15", "590.48.01"])
def test_nvml_and_nvidia_smi_tell_the_same(
    machine: Machine,
    people: People,
    sim_lib: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
) -> None:
    busy = SimGpu(
        memory_used=20 * GIB,
        util_gpu=71,
        util_memory=33,
        temperature=61,
        power_usage=412_340,
        fan=37,
        fans=1,
        throttle="sw-power-cap",
        processes=[SimProcess(pid=people.start(), memory=19 * GIB)],
    )
    machine.play(Scenario(gpus=[busy, SimGpu(memory_used=4 * MIB)], driver=driver))
    by_nvml = machine.snapshot()
    only_nvidia_smi(sim_lib, tmp_path / "bin", monkeypatch)
    by_program = Sampler(Reader(spawn), subjects=QUICK)
    second = by_program.take()
    by_program.close()
    assert outcomes(by_nvml)["nvidia"] == "ok"
    assert (outcomes(second)["nvidia"], outcomes(second)["nvidia_smi"]) == ("absent", "ok")
    assert [comparable(gpu) for gpu in second.gpus] == [comparable(gpu) for gpu in by_nvml.gpus]
    assert second.host.driver_version == driver


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
def test_a_sentinel_is_believed_in_no_field(machine: Machine, call: str) -> None:
    machine.play(SimGpu(memory_used=4 * MIB, faults={call: SENTINEL}))
    sampler = Sampler(Reader(spawn), traffic=True)
    snapshot = sampler.take()
    sampler.close()
    (gpu,) = snapshot.gpus
    assert gpu.fault is None
    assert not [v for v in asdict(gpu).values() if isinstance(v, (int, float)) and v > 1e12]
    assert gpu.throttle_reasons is None or len(gpu.throttle_reasons) < 3
    assert machine.verdict().state == "free"


def test_more_memory_used_than_there_is_is_not_believed(machine: Machine) -> None:
    machine.play(SimGpu(memory_used=90 * GIB))
    (gpu,) = machine.snapshot().gpus
    assert gpu.memory_used_bytes is None
    assert gpu.unread["memory_used_bytes"] == "out of range: more than there is"


def test_a_cuda_version_that_cannot_be_is_unknown(machine: Machine) -> None:
    machine.play(Scenario(gpus=[SimGpu()], faults={"CudaDriverVersion": SENTINEL}))
    assert machine.snapshot().host.cuda_version is None


@pytest.mark.parametrize("fault", ["unknown", SENTINEL, "not-supported"])
@pytest.mark.parametrize("call", ["MaxMigDeviceCount", "MigDeviceHandleByIndex"])
def test_what_is_wrong_with_mig_on_one_gpu_leaves_the_others_whole(
    machine: Machine, call: str, fault: str
) -> None:
    instances = [SimInstance(profile="1g.10gb", gi=1)]
    ailing = SimGpu(mig=True, instances=instances, faults={call: fault})
    machine.play(Scenario(gpus=[SimGpu(), ailing, SimGpu()]))
    first, second, third = machine.look().nodes[0].gpus
    assert (first.verdict.state, third.verdict.state) == ("free", "free")
    assert second.uuid


def test_devices_that_come_and_go_are_told_apart_by_uuid(machine: Machine) -> None:
    a, b, c = (SimGpu(uuid=f"GPU-{name}") for name in "abc")

    def seen() -> list[str]:
        return [gpu.uuid for gpu in machine.snapshot().gpus]

    machine.play(Scenario(gpus=[a, b, c]))
    assert seen() == ["GPU-a", "GPU-b", "GPU-c"]
    machine.play(Scenario(gpus=[b, c]))
    assert seen() == ["GPU-b", "GPU-c"]
    machine.play(Scenario(gpus=[a, b, c]))
    assert seen() == ["GPU-a", "GPU-b", "GPU-c"]


def test_a_gpu_that_wakes_is_read(machine: Machine) -> None:
    kernel_with(machine.root, "0000:10:00.0", asleep=True)
    machine.play(SimGpu(pci="00000000:10:00.0", util_gpu=42))
    assert machine.snapshot().gpus[0].asleep
    power = machine.root / "sys/bus/pci/devices/0000:10:00.0/power"
    (power / "runtime_status").write_text("active\n")
    (gpu,) = machine.snapshot().gpus
    assert (gpu.asleep, gpu.busy_percent, gpu.fault) == (False, 42, None)


def test_a_driver_exchanged_under_a_watcher_is_a_mismatch(machine: Machine) -> None:
    machine.play(SimGpu())
    machine.look()
    machine.play(SimGpu(faults={"*": "18"}))
    (gpu,) = machine.look(10).nodes[0].gpus
    assert gpu.verdict.state == "unknown"
    assert "do not match: reload the driver or reboot" in gpu.verdict.reason


def test_a_count_of_devices_that_cannot_be_is_bounded(machine: Machine) -> None:
    machine.play(Scenario(gpus=[SimGpu()], faults={"Count": "value=100000"}))
    assert len(machine.snapshot().gpus) <= 256


def test_a_hostile_name_of_the_node_is_cleaned() -> None:
    sampler = Sampler(ScriptedReader(host=HOST), name="gpu\x1b[31m\n07\udcff" + "x" * 100_000)
    name = sampler.take().name
    assert name.startswith("gpu [31m 07 xxx")
    assert len(name) <= 128


def test_mig_instances_come_with_their_processes(machine: Machine, people: People) -> None:
    pid = people.start()
    gpu = SimGpu(
        mig=True,
        instances=[
            SimInstance(profile="1g.10gb", gi=7, uuid="MIG-a", memory_used=3 * GIB),
            SimInstance(profile="2g.20gb", gi=9, uuid="MIG-b"),
        ],
        processes=[SimProcess(pid=pid, memory=2 * GIB, gi=7, ci=0)],
    )
    machine.play(gpu)
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
    machine: Machine, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: int
) -> None:
    build(tmp_path / "old", branch)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "old"))
    processes = [SimProcess(pid=people.start(), memory=number * GIB) for number in (1, 2, 3)]
    machine.play(Scenario(driver=f"{branch}.99.01", gpus=[SimGpu(processes=processes)]))
    (gpu,) = machine.snapshot().gpus
    assert {(one.pid, one.gpu_memory_bytes) for one in gpu.processes or ()} == {
        (one.pid, one.memory) for one in processes
    }


def test_more_processes_than_there_was_room_for_are_all_told(
    machine: Machine, people: People
) -> None:
    pid = people.start()
    crowd = [
        SimProcess(pid=pid, memory=MIB),
        *(SimProcess(pid=n, memory=MIB) for n in range(400_000, 400_300)),
    ]
    machine.play(SimGpu(processes=crowd))
    (gpu,) = machine.snapshot().gpus
    assert len(gpu.processes or ()) == 301
