"""Which files of AMD cards are read, and which are not."""

from pathlib import Path

import pytest

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import amdgpu
from tests.node.file_trees import drm_card, drm_client, record_opened_paths, write_tree


def test_a_machine_without_amd_cards_is_reported_as_absent(tmp_path: Path) -> None:
    with pytest.raises(NotPresent, match="no AMD GPU"):
        amdgpu.read(
            write_tree(tmp_path, drm_card("xe") | drm_card("radeon", number=2, pci="0000:04:00.0"))
        )


def test_figures_are_returned_as_written(tmp_path: Path) -> None:
    files = {
        "gpu_busy_percent": "11\n",
        "mem_info_vram_used": "536870912\n",
        "hwmon/hwmon4/temp1_input": "44000\n",
        "current_link_width": "16\n",
        "ras/umc_err_count": "ue: 0\nce: 3\n",
        "ras/features": "feature mask: 0x5\n",
    }
    (found,) = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu", files=files)))["cards"]
    assert found["files"] == {"gpu_busy_percent": "11", "mem_info_vram_used": "536870912"}
    assert found["hwmon"] == {"temp1_input": "44000"}
    assert found["link"] == {"current_link_width": "16"}
    assert found["ras"] == {"ras/umc_err_count": "ue: 0\nce: 3"}


def test_a_sleeping_card_is_not_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "power/runtime_status": "suspended\n",
        "unique_id": "249220e172fc1a88\n",
        "gpu_busy_percent": "0\n",
        "hwmon/hwmon4/temp1_input": "44000\n",
        "current_link_speed": "8.0 GT/s PCIe\n",
        "ras/umc_err_count": "ue: 0\nce: 0\n",
    }
    root = write_tree(tmp_path, drm_card("amdgpu", files=files) | drm_client(41, "renderD128"))
    opened = record_opened_paths(monkeypatch)
    raw = amdgpu.read(root)
    below = {path.removeprefix(f"{root}/sys/class/drm/card1/device/") for path in opened}
    assert raw["cards"][0]["files"] == {"unique_id": "249220e172fc1a88"}
    assert {name for name in below if not name.startswith("/")} == {
        "uevent",
        "power/runtime_status",
        "product_name",
        "unique_id",
    }
    assert not [path for path in opened if "fdinfo" in path]


def test_compute_processes_are_read_without_rocm(tmp_path: Path) -> None:
    kfd = "sys/class/kfd/kfd"
    tree = drm_card("amdgpu") | {
        f"{kfd}/topology/nodes/1/gpu_id": "35218\n",
        f"{kfd}/topology/nodes/1/properties": "simd_count 24\nlocation_id 768\nunique_id 5\n",
        f"{kfd}/proc/4242/vram_35218": "1048576\n",
        f"{kfd}/proc/4242/pasid": "32770\n",
        f"{kfd}/proc/4242/queues/0/gpuid": "35218\n",
        f"{kfd}/proc/not-a-pid/vram_1": "1\n",
    }
    raw = amdgpu.read(write_tree(tmp_path, tree))
    assert raw["kfd_nodes"] == [
        {
            "node": 1,
            "gpu_id": "35218",
            "simd_count": "24",
            "location_id": "768",
            "unique_id": "5",
        }
    ]
    assert raw["kfd_processes"] == [
        {"pid": 4242, "vram": {"35218": "1048576"}, "queues": ["35218"]}
    ]


def test_without_kfd_compute_processes_are_unknown(tmp_path: Path) -> None:
    assert amdgpu.read(write_tree(tmp_path, drm_card("amdgpu")))["kfd_processes"] is None
