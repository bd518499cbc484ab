"""The environment of a job: only its GPUs are visible, for each vendor."""

import pytest

from fleet_smi.cli.job_environment import docker_devices, job_environment
from fleet_smi.errors import UsageError
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.candidates import Candidate, GpuRequest
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.named_gpus import only_named, only_visible
from fleet_smi.model.select import find_offer
from fleet_smi.model.snapshot import Vendor
from tests.builders import NOON, gpu, instance, snapshot
from tests.fleet.fleet_views import fleet_of


def view(vendor: Vendor) -> FleetView:
    return fleet_of(snapshot(gpu(0, vendor=vendor), gpu(1, vendor=vendor))).view(NOON)


def both(vendor: Vendor) -> tuple[Candidate, ...]:
    return find_offer(view(vendor), GpuRequest(count=2)).offered


def test_nvidia_gets_indices_in_the_order_of_the_driver() -> None:
    job = job_environment(both("nvidia"), {"CUDA_VISIBLE_DEVICES": "7", "HOME": "/root"})
    assert job == {
        "HOME": "/root",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_amd_gets_rocr_and_no_indices_that_would_count_twice() -> None:
    job = job_environment(both("amd"), {"HIP_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "3"})
    assert job == {"ROCR_VISIBLE_DEVICES": "0,1"}


def test_intel_gets_a_device_selector() -> None:
    job = job_environment(both("intel"), {"ZE_AFFINITY_MASK": "3"})
    assert job == {"ONEAPI_DEVICE_SELECTOR": "level_zero:0,1"}
    with pytest.raises(UsageError, match="takes indices only"):
        job_environment(both("intel"), {}, uuid=True)


def test_docker_is_for_nvidia_alone() -> None:
    devices = docker_devices(both("nvidia"))
    assert devices == f'"device={gpu(0).uuid},{gpu(1).uuid}"'
    with pytest.raises(UsageError, match="NVIDIA GPUs alone"):
        docker_devices(both("amd"))


@pytest.mark.parametrize(
    ("vendor", "variable", "value", "left"),
    [
        ("amd", "ROCR_VISIBLE_DEVICES", "1", [1]),
        ("amd", "HIP_VISIBLE_DEVICES", "0", [0]),
        ("amd", "ONEAPI_DEVICE_SELECTOR", "level_zero:0", [0, 1]),
        ("intel", "ONEAPI_DEVICE_SELECTOR", "level_zero:1", [1]),
        ("intel", "ONEAPI_DEVICE_SELECTOR", "opencl:*", [0, 1]),
        ("nvidia", "ROCR_VISIBLE_DEVICES", "1", [0, 1]),
    ],
)
def test_it_stays_among_the_gpus_that_were_given(
    vendor: Vendor, variable: str, value: str, left: list[int]
) -> None:
    (node,) = only_visible(view(vendor), {variable: value}).nodes
    assert [each.index for each in node.gpus] == left


def test_gpus_are_named_by_index_uuid_or_part() -> None:
    card = gpu(1, uuid="GPU-b", mig_mode=True, instances=(instance(1), instance(2)))
    fleet: FleetState = fleet_of(snapshot(gpu(0, uuid="GPU-a"), card))
    named = {
        name: [
            part.uuid
            for each in only_named(fleet.view(NOON), [name]).nodes[0].gpus
            for part in (each.instances or (each,))
        ]
        for name in ("0", "GPU-a", "1:0", instance(2).uuid)
    }
    assert named == {
        "0": ["GPU-a"],
        "GPU-a": ["GPU-a"],
        "1:0": [instance(1).uuid],
        instance(2).uuid: [instance(2).uuid],
    }
