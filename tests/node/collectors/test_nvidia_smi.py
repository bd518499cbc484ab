"""The nvidia_smi collector: output of `nvidia-smi` as part of a snapshot."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import NotPresent
from fleet_smi.model.snapshot import Gpu
from fleet_smi.node.collectors import QUICK_SUBJECTS
from fleet_smi.node.collectors.nvidia_smi import NvidiaSmiCollector
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler
from fleet_smi.wire.parsers.nvidia_smi import classify_failure
from sim.scenario import Scenario, SimGpu
from tests.machines import SimulatedMachine


def document(address: str, uuid: str, more: str = "") -> str:
    return (
        "<nvidia_smi_log><driver_version>550.54.14</driver_version>"
        f'<cuda_version>12.4</cuda_version><gpu id="{address}"><uuid>{uuid}</uuid>'
        f"<fan_speed>7 %</fan_speed>{more}</gpu></nvidia_smi_log>"
    )


def raw(**more: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {
        "exit_code": 0,
        "kernel_version": None,
        "list": None,
        "parts": [],
        "failed": [],
    }
    return {"xml": None, **blank, **more}


def failed(address: str, message: str | None, **more: Any) -> dict[str, Any]:
    nothing = {"uuid": None, "name": None, "asleep": False, "index": None}
    return {"pci": address, "message": message, **nothing, **more}


def test_a_document_becomes_gpus_and_the_versions_of_the_host() -> None:
    part = NvidiaSmiCollector().parse(raw(xml=document("00000000:01:00.0", "GPU-a")))
    assert [(gpu.uuid, gpu.fan_percent) for gpu in part.gpus] == [("GPU-a", 7)]
    assert (part.host.driver_version, part.host.cuda_version) == ("550.54.14", "12.4")


def test_mig_instances_get_their_uuids_from_the_list() -> None:
    more = "<mig_devices><mig_device><index>0</index></mig_device></mig_devices>"
    listing = "GPU 0: T4 (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n"
    part = NvidiaSmiCollector().parse(raw(xml=document("01:00.0", "GPU-a", more), list=listing))
    assert [instance.uuid for instance in part.gpus[0].instances] == ["MIG-1"]


def test_devices_read_one_by_one_are_in_pci_order() -> None:
    part = NvidiaSmiCollector().parse(
        raw(
            parts=[document("00000000:0C:00.0", "GPU-c"), document("00000000:0A:00.0", "GPU-a")],
            failed=[failed("0000:0b:00.0", "GPU is lost", uuid="GPU-b", name="NVIDIA T4")],
        )
    )
    assert [(gpu.index, gpu.uuid) for gpu in part.gpus] == [
        (0, "GPU-a"),
        (1, "GPU-b"),
        (2, "GPU-c"),
    ]
    gone = part.gpus[1]
    assert (gone.name, gone.pci_bus_id) == ("NVIDIA T4", "00000000:0B:00.0")
    assert gone.fault is not None
    assert (gone.fault.kind, gone.fault.detail) == ("lost", "GPU is lost")
    assert gone.processes is None
    assert not gone.memory_shared


@pytest.mark.parametrize(
    "message, kind",
    [
        ("GPU is lost", "lost"),
        ("Unknown Error", "lost"),
        ("GPU requires reset", "needs_reset"),
        ("Insufficient Permissions", "unreadable"),
        (None, "not_answering"),
    ],
)
def test_an_unreadable_device_has_a_reason(message: str | None, kind: str) -> None:
    (gpu,) = NvidiaSmiCollector().parse(raw(failed=[failed("0000:0b:00.0", message)])).gpus
    assert gpu.uuid == "GPU-at-00000000:0B:00.0"
    assert gpu.fault is not None
    assert gpu.fault.kind == kind
    assert gpu.fault.remedy


def test_a_sleeping_device_has_no_fault() -> None:
    (gpu,) = NvidiaSmiCollector().parse(raw(failed=[failed("01:00.0", None, asleep=True)])).gpus
    assert (gpu.asleep, gpu.fault) == (True, None)


def test_a_failure_in_place_of_a_document_is_raised_by_name() -> None:
    with pytest.raises(NotPresent):
        NvidiaSmiCollector().parse(raw(xml="No devices were found"))


def test_a_device_without_an_address_keeps_its_number() -> None:
    part = NvidiaSmiCollector().parse(
        raw(
            parts=[document("00000000:0A:00.0", "GPU-a"), document("00000000:0D:00.0", "GPU-d")],
            failed=[failed("", None, index=1), failed("", "ERR!", index=2)],
        )
    )
    uuids = [gpu.uuid for gpu in part.gpus]
    assert uuids == ["GPU-a", "GPU-at-1", "GPU-at-2", "GPU-d"]
    assert [gpu.index for gpu in part.gpus] == [0, 1, 2, 3]


def memory(used: int, total: int) -> str:
    return f"<fb_memory_usage><total>{total} MiB</total><used>{used} MiB</used></fb_memory_usage>"


def test_more_memory_used_than_there_is_is_not_believed() -> None:
    in_xml = raw(xml=document("01:00.0", "GPU-a", memory(900, 800)))
    (gpu,) = NvidiaSmiCollector().parse(in_xml).gpus
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, 800 * 2**20)
    assert gpu.unread == {"memory_used_bytes": "out of range: more than there is"}


def test_more_instance_memory_used_than_there_is_is_not_believed() -> None:
    more = f"<mig_devices><mig_device>{memory(9, 8)}</mig_device></mig_devices>"
    (gpu,) = NvidiaSmiCollector().parse(raw(xml=document("01:00.0", "GPU-a", more))).gpus
    (instance,) = gpu.instances
    assert (instance.memory_used_bytes, instance.memory_total_bytes) == (None, 8 * 2**20)
    assert instance.unread == {"memory_used_bytes": "out of range: more than there is"}


def looked_at_by_program(
    machine: SimulatedMachine, lib_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Gpu, ...]:
    """Return the GPUs of a machine without the NVML library, read through nvidia-smi."""
    folder.mkdir()
    shutil.copy(lib_dir / "nvidia-smi", folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    machine.root.mkdir()
    sampler = Sampler(Reader(spawn_worker), root=str(machine.root), subjects=QUICK_SUBJECTS)
    try:
        return sampler.sample().gpus
    finally:
        sampler.close()


@pytest.mark.parametrize(
    "fault, kind, remedy",
    [
        ("lost", "lost", "reboot"),
        ("unknown", "lost", "reboot"),
        ("reset-required", "needs_reset", "--gpu-reset"),
        ("no-permission", "unreadable", "ask for access to /dev/nvidia*"),
    ],
)
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_bad_gpu_hides_no_other_where_nothing_lists_them(
    machine: SimulatedMachine,
    sim_lib: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: int,
    fault: str,
    kind: str,
    remedy: str,
) -> None:
    cards = [SimGpu(faults={"**": fault} if index == bad else {}) for index in range(3)]
    machine.set_scenario(Scenario(gpus=cards))
    gpus = looked_at_by_program(machine, sim_lib, tmp_path / "bin", monkeypatch)
    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert [gpu.memory_total_bytes is None for gpu in gpus] == [at == bad for at in range(3)]
    assert [gpu.fault is not None for gpu in gpus] == [at == bad for at in range(3)]
    reported = gpus[bad].fault
    assert reported is not None
    assert reported.kind == kind
    assert remedy in (reported.remedy or "")


def test_a_gpu_that_cannot_be_opened_has_the_same_fault_as_with_nvml(
    machine: SimulatedMachine, sim_lib: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu(), SimGpu(faults={"**": "no-permission"})]))
    by_nvml = machine.snapshot().gpus
    by_program = looked_at_by_program(machine, sim_lib, tmp_path / "bin", monkeypatch)
    assert by_program[1].fault == by_nvml[1].fault


def test_missing_permission_does_not_recommend_a_reboot() -> None:
    prefix = "Unable to determine the device handle for GPU 0000:0B:00.0: "
    assert "allow this user /dev/nvidia*" in str(
        classify_failure(prefix + "Insufficient Permissions")
    )
    assert "reboot" in str(classify_failure(prefix + "Unknown Error"))
