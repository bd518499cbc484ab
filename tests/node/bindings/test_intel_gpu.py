"""Which files of Intel GPUs are read, and what is remembered between two reads."""

from pathlib import Path

import pytest

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import intel_gpu
from tests.node.file_trees import drm_card, drm_client, record_opened_paths, write_tree

ARC = "8086:56A5"


def test_a_machine_without_intel_gpus_is_reported_as_absent(tmp_path: Path) -> None:
    with pytest.raises(NotPresent, match="no Intel GPU"):
        intel_gpu.read(write_tree(tmp_path, drm_card("amdgpu")))


def test_xe_keeps_its_files_below_the_tile(tmp_path: Path) -> None:
    files = {
        "tile0/gt0/freq0/act_freq": "400\n",
        "tile0/gt0/freq0/rp0_freq": "2850\n",
        "tile0/gt0/freq0/throttle/reason_pl1": "1\n",
        "tile0/gt0/freq0/throttle/reasons": "pl1\n",
        "tile0/gt1/freq0/act_freq": "1200\n",
        "tile0/physical_vram_size_bytes": "12884901888\n",
    }
    (found,) = intel_gpu.read(write_tree(tmp_path, drm_card("xe", ARC, files=files)))["cards"]
    assert found["gt"] == {"act_freq": "400", "rp0_freq": "2850"}
    assert found["throttle"] == {"reason_pl1": "1"}
    assert found["memory"] == {"tile0/physical_vram_size_bytes": "12884901888"}


def test_i915_keeps_its_files_in_the_cards_folder(tmp_path: Path) -> None:
    tree = drm_card("i915", ARC) | {
        "sys/class/drm/card1/gt/gt0/rps_act_freq_mhz": "600\n",
        "sys/class/drm/card1/gt/gt0/throttle_reason_thermal": "0\n",
        "sys/class/drm/card1/gt_RP0_freq_mhz": "2450\n",
    }
    (found,) = intel_gpu.read(write_tree(tmp_path, tree))["cards"]
    assert found["gt"] == {"rps_act_freq_mhz": "600", "gt_RP0_freq_mhz": "2450"}
    assert found["throttle"] == {"throttle_reason_thermal": "0"}


def test_the_energy_counters_of_the_last_read_are_remembered(tmp_path: Path) -> None:
    counter = "hwmon/hwmon1/energy1_input"
    root = write_tree(tmp_path, drm_card("i915", ARC, files={counter: "1000\n"}))
    first = intel_gpu.read(root, clock=lambda: 100.0)
    write_tree(tmp_path, {f"sys/class/drm/card1/device/{counter}": "5000\n"})
    second = intel_gpu.read(root, clock=lambda: 102.0)
    assert first["cards"][0]["energy_before"] is None
    assert second["cards"][0]["energy_before"] == {
        "seconds": 2.0,
        "counters": {"energy1_input": "1000"},
    }


def test_a_sleeping_card_is_not_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "power/runtime_status": "suspended\n",
        "tile0/gt0/freq0/act_freq": "400\n",
        "hwmon/hwmon1/energy1_input": "1000\n",
    }
    root = write_tree(tmp_path, drm_card("xe", ARC, files=files) | drm_client(41, "renderD128"))
    opened = record_opened_paths(monkeypatch)
    intel_gpu.read(root)
    # Only the name of the process: reading its memory would wake the card.
    assert {path.removeprefix(f"{root}/").rpartition("device/")[2] for path in opened} == {
        "uevent",
        "power/runtime_status",
        "proc/41/comm",
    }
