"""The sampler: joining parts into a snapshot, fallbacks, and missing parts."""

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
from fleet_smi.node import snapshot_builder
from fleet_smi.node.collectors import QUICK_SUBJECTS
from fleet_smi.node.reader import Reader, ReadResult
from fleet_smi.node.reader_process import ProcessWorker, spawn_worker
from fleet_smi.node.reader_types import ReadTimeouts
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.sampler import Sampler
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimProcess
from tests.machines import SimulatedMachine, UserProcesses, wait_until


class ScriptedReader(Reader):
    """A reader with scripted results."""

    def __init__(self, **results: Any) -> None:
        super().__init__(self._nobody)
        self.results = results
        self.requested: list[str] = []

    def read(self, requests: Sequence[ReadRequest], timeouts: ReadTimeouts) -> list[ReadResult]:
        return [self._answer(subject) for subject, _ in requests]

    def _answer(self, subject: str) -> ReadResult:
        self.requested.append(subject)
        result = self.results.get(subject, NotPresent(f"no {subject} here"))
        if isinstance(result, CollectError):
            return ReadResult(None, result, 0.001)
        return ReadResult(result, None, 0.001)

    @staticmethod
    def _nobody() -> ProcessWorker:
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
        "group": None,
        "cgroup": None,
        "slurm_job": None,
        "name": b"python",
        "command": b"python\0",
        "state": "S",
        "parent": 1,
        "started_at": started_at,
        "cpu_percent": None,
        "memory": 1,
    }


def outcomes(snapshot: Snapshot) -> dict[str, str]:
    return {run.name: run.outcome for run in snapshot.runs}


def test_process_details_are_joined_to_pids() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes={7: facts(time.time() - 60)})
    (gpu,) = Sampler(reader).sample().gpus
    assert [(one.user, one.gpu_memory_bytes) for one in gpu.processes or ()] == [("alice", GIB)]


def test_what_one_part_knows_of_the_host_is_not_erased_by_another() -> None:
    addresses = [("eth0", "192.0.2.7")]
    people = {7: facts(time.time() - 60)}
    reader = ScriptedReader(
        network=addresses, host=HOST, nvidia=nvidia(device(7)), processes=people
    )
    host = Sampler(reader).sample().host
    assert (host.addresses, host.interfaces) == (("192.0.2.7",), {"192.0.2.7": "eth0"})
    assert (host.kernel, host.driver_version) == ("6", "590.48.01")


def test_a_pid_that_is_gone_or_reused_is_hidden_without_an_owner() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes={7: None})
    (gpu,) = Sampler(reader).sample().gpus
    assert gpu.processes is not None
    (process,) = gpu.processes
    assert (process.hidden, process.user, process.uid, process.command) == (True, None, None, None)
    assert process.gpu_memory_bytes == GIB


def test_pids_without_readable_details_are_hidden() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), processes=ReadFailed("no /proc"))
    snapshot = Sampler(reader).sample()
    assert [one.hidden for one in snapshot.gpus[0].processes or ()] == [True]
    assert outcomes(snapshot)["processes"] == "failed"


def test_a_bug_in_one_collector_does_not_blind_the_node() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), amd={"nonsense": 1})
    snapshot = Sampler(reader).sample()
    assert len(snapshot.gpus) == 1
    assert outcomes(snapshot)["amd"] == "failed"
    assert "bug" in next(run.detail for run in snapshot.runs if run.name == "amd")


def test_fallbacks_are_not_read_where_nvml_works() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)))
    Sampler(reader).sample()
    assert not {"nvidia_smi", "nvidia_kernel"} & set(reader.requested)


def test_a_driver_that_fails_without_time_left_keeps_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_builder, "SAMPLE_TIMEOUT_SECONDS", 0.0)
    reader = ScriptedReader(nvidia=ReadFailed("NVML does not work"))
    runs = {run.name: run.detail for run in Sampler(reader).sample().runs}
    assert runs["nvidia"] == "NVML does not work"
    assert "nvidia_smi" not in runs


def test_a_device_without_a_uuid_is_its_nodes_own() -> None:
    unnamed = device(7)
    del unnamed["values"]["uuid"]
    reader = ScriptedReader(nvidia=nvidia(unnamed), host=HOST)
    snapshot = Sampler(reader).sample()
    assert snapshot.gpus[0].uuid == f"GPU-of-unknown-uuid-0@{snapshot.node_id}"
    assert snapshot.gpus[0].uuid_is_made


def test_a_node_keeps_its_identity_when_the_host_is_unreadable() -> None:
    reader = ScriptedReader(nvidia=nvidia(device(7)), host=HOST)
    sampler = Sampler(reader)
    first = sampler.sample()
    reader.results["host"] = NotAnswering("did not answer")
    second = sampler.sample()
    assert (second.node_id, second.name) == (first.node_id, first.name)


def test_a_hung_nvidia_smi_is_killed_before_the_reader_times_out(
    machine: SimulatedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NVML is slow to fail, and then nvidia-smi hangs. More time than usual for both, because on a
    # busy machine it takes seconds until the reader has started.
    monkeypatch.setattr(snapshot_builder, "READ_TIMEOUT_SECONDS", 5.0)
    monkeypatch.setattr(snapshot_builder, "SAMPLE_TIMEOUT_SECONDS", 6.0)
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    machine.set_scenario(Scenario(init="unknown", faults={"nvmlInit": "slow=1500"}))
    snapshot = machine.snapshot()
    assert outcomes(snapshot)["nvidia_smi"] == "failed"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_snapshots_are_numbered_and_carry_the_machines_name(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu())
    first, second = machine.snapshot(), machine.snapshot()
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.name == os.uname().nodename
    assert first.node_id == second.node_id


def only_nvidia_smi(lib_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose NVML library is missing and whose nvidia-smi works."""
    folder.mkdir()
    shutil.copy(lib_dir / "nvidia-smi", folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


# Only one of NVML and nvidia-smi reports these.
NOT_IN_BOTH = {
    "addressing",
    "energy_joules",
    "pcie_rx_bytes_per_second",
    "pcie_tx_bytes_per_second",
}


def comparable(gpu: Gpu) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(gpu).items() if key not in NOT_IN_BOTH}
    fields["processes"] = [(one.pid, one.kind, one.gpu_memory_bytes) for one in gpu.processes or ()]
    return fields


@pytest.mark.parametrize("driver", ["470.82.01", "535.161.07", "570.86.15", "590.48.01"])
def test_nvml_and_nvidia_smi_give_the_same_values(
    machine: SimulatedMachine,
    people: UserProcesses,
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
    machine.set_scenario(Scenario(gpus=[busy, SimGpu(memory_used=4 * MIB)], driver=driver))
    by_nvml = machine.snapshot()
    only_nvidia_smi(sim_lib, tmp_path / "bin", monkeypatch)
    by_program = Sampler(Reader(spawn_worker), subjects=QUICK_SUBJECTS, patient=True)
    second = by_program.sample()
    by_program.close()
    assert outcomes(by_nvml)["nvidia"] == "ok"
    assert (outcomes(second)["nvidia"], outcomes(second)["nvidia_smi"]) == ("absent", "ok")
    assert [comparable(gpu) for gpu in second.gpus] == [comparable(gpu) for gpu in by_nvml.gpus]
    assert second.host.driver_version == driver


def test_a_hostile_node_name_is_sanitised() -> None:
    sampler = Sampler(ScriptedReader(host=HOST), name="gpu\x1b[31m\n07\udcff" + "x" * 100_000)
    name = sampler.sample().name
    assert name.startswith("gpu [31m 07 xxx")
    assert len(name) <= 128
