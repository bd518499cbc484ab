"""What was read of `nvidia-smi`, as a part of a snapshot."""

from typing import Any

import pytest

from fleet_smi.errors import NotPresent
from fleet_smi.node.collectors.nvidia_smi import NvidiaSmiCollector


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


def failed(address: str, words: str | None, **more: Any) -> dict[str, Any]:
    return {"pci": address, "uuid": None, "name": None, "asleep": False, "words": words} | more


def test_a_document_becomes_gpus_and_the_versions_of_the_host() -> None:
    part = NvidiaSmiCollector().part(raw(xml=document("00000000:01:00.0", "GPU-a")))
    assert [(gpu.uuid, gpu.fan_percent) for gpu in part.gpus] == [("GPU-a", 7)]
    assert (part.host.driver_version, part.host.cuda_version) == ("550.54.14", "12.4")


def test_mig_instances_get_their_uuids_from_the_list() -> None:
    more = "<mig_devices><mig_device><index>0</index></mig_device></mig_devices>"
    listing = "GPU 0: T4 (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n"
    part = NvidiaSmiCollector().part(raw(xml=document("01:00.0", "GPU-a", more), list=listing))
    assert [instance.uuid for instance in part.gpus[0].instances] == ["MIG-1"]


def test_devices_asked_one_by_one_stand_in_the_order_of_the_bus() -> None:
    part = NvidiaSmiCollector().part(
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
    "words, kind",
    [
        ("GPU is lost", "lost"),
        ("Unknown Error", "lost"),
        ("GPU requires reset", "needs_reset"),
        (None, "not_answering"),
    ],
)
def test_a_device_that_told_nothing_says_why(words: str | None, kind: str) -> None:
    (gpu,) = NvidiaSmiCollector().part(raw(failed=[failed("0000:0b:00.0", words)])).gpus
    assert gpu.uuid == "GPU-at-00000000:0B:00.0"
    assert gpu.fault is not None
    assert gpu.fault.kind == kind
    assert gpu.fault.remedy


def test_a_sleeping_device_has_no_fault() -> None:
    (gpu,) = NvidiaSmiCollector().part(raw(failed=[failed("01:00.0", None, asleep=True)])).gpus
    assert (gpu.asleep, gpu.fault) == (True, None)


def test_a_failure_in_place_of_a_document_is_raised_by_name() -> None:
    with pytest.raises(NotPresent):
        NvidiaSmiCollector().part(raw(xml="No devices were found"))
