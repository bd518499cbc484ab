"""The amd collector: faults, refused figures and sleeping cards."""

from pathlib import Path

from fleet_smi.node.bindings import amdgpu
from fleet_smi.node.collectors.amd import AmdCollector
from tests.node.collectors.amd_files import read_gpu
from tests.node.file_trees import Content, drm_card, write_tree


def test_a_card_that_fell_off_the_bus_is_lost(tmp_path: Path) -> None:
    files: dict[str, Content] = {"current_link_speed": "Unknown\n", "current_link_width": "63\n"}
    gpu = read_gpu(tmp_path, files)
    assert gpu.fault is not None
    assert (gpu.fault.kind, gpu.pcie_width) == ("lost", None)


def test_a_value_that_cannot_be_is_not_known_and_says_why(tmp_path: Path) -> None:
    gpu = read_gpu(tmp_path, {"gpu_busy_percent": "65535\n"})
    assert gpu.busy_percent is None
    assert gpu.unread["busy_percent"] == "out of range: 65535"


def test_a_refused_figure_says_why(tmp_path: Path) -> None:
    raw = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu", files={"mem_busy_percent": "3\n"})))
    raw["cards"][0]["refused"] = {"gpu_busy_percent": "EBUSY", "temp1_input": "EPERM"}
    (gpu,) = AmdCollector().parse(raw).gpus
    assert gpu.unread["busy_percent"] == "the device is busy"
    assert gpu.unread["temperature_celsius"] == "not permitted"
    assert gpu.fault is None


def test_a_card_whose_every_figure_fails_is_unreadable(tmp_path: Path) -> None:
    raw = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu")))
    raw["cards"][0]["refused"] = {"gpu_busy_percent": "EIO", "temp1_input": "ETIMEDOUT"}
    (gpu,) = AmdCollector().parse(raw).gpus
    assert gpu.fault is not None
    assert (gpu.fault.kind, "EIO" in gpu.fault.detail) == ("unreadable", True)


def test_one_dead_sensor_does_not_make_a_card_unreadable(tmp_path: Path) -> None:
    raw = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu", files={"gpu_busy_percent": "3\n"})))
    raw["cards"][0]["refused"] = {"temp1_input": "EIO"}
    (gpu,) = AmdCollector().parse(raw).gpus
    assert (gpu.fault, gpu.busy_percent) == (None, 3)
    assert gpu.unread["temperature_celsius"] == "the driver returned EIO"


def test_a_sleeping_card_keeps_its_id(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "power/runtime_status": "suspended\n",
        "unique_id": "249220e172fc1a88\n",
        "gpu_busy_percent": "0\n",
    }
    gpu = read_gpu(tmp_path, files)
    assert (gpu.asleep, gpu.uuid, gpu.busy_percent) == (True, "GPU-249220e172fc1a88", None)
    assert gpu.processes is None
