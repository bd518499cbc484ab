"""Cards, sensors, power state and PCIe links below /sys."""

import os
from pathlib import Path

import pytest

from fleet_smi.node.bindings import drm
from tests.node.file_trees import Content, drm_card, write_tree


def _names(root: str, *drivers: str) -> list[str]:
    return [identity["card"] for identity, _, _ in drm.iter_cards(root, drivers)]


def test_connectors_and_cards_of_other_drivers_are_not_cards(tmp_path: Path) -> None:
    tree = drm_card("ast", number=0) | drm_card("amdgpu", number=1)
    tree |= {"sys/class/drm/card1-HDMI-A-1/status": "connected\n", "sys/class/drm/version": "drm"}
    assert _names(write_tree(tmp_path, tree), "amdgpu") == ["card1"]


def test_cards_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    tree = drm_card("xe", number=10, pci="0000:0a:00.0") | drm_card(
        "i915", number=2, pci="0000:02:00.0"
    )
    assert _names(write_tree(tmp_path, tree), "xe", "i915") == ["card2", "card10"]


def test_a_machine_without_drm_has_no_cards(tmp_path: Path) -> None:
    assert _names(str(tmp_path), "amdgpu") == []


def test_a_driver_is_known_by_its_link_where_uevent_does_not_say_it(tmp_path: Path) -> None:
    tree: dict[str, Content] = {
        "sys/class/drm/card0/device/uevent": "PCI_CLASS=30000\n",
        "sys/class/drm/card0/device/driver": Path("../../../../bus/pci/drivers/amdgpu"),
    }
    assert _names(write_tree(tmp_path, tree), "amdgpu") == ["card0"]


@pytest.mark.parametrize(
    "status, asleep",
    [("suspended\n", True), ("suspending\n", True), ("active\n", False), ("unsupported\n", False)],
)
def test_a_suspended_device_is_asleep(tmp_path: Path, status: str, asleep: bool) -> None:
    tree = drm_card("amdgpu", files={"power/runtime_status": status})
    ((identity, _, _),) = drm.iter_cards(write_tree(tmp_path, tree), ("amdgpu",))
    assert identity["asleep"] is asleep


def test_an_address_that_is_none_is_not_passed_on(tmp_path: Path) -> None:
    tree = drm_card("amdgpu", pci="../../etc")
    ((identity, _, _),) = drm.iter_cards(write_tree(tmp_path, tree), ("amdgpu",))
    assert identity["pci"] is None


def test_a_file_padded_with_zero_bytes_reads_as_its_text(tmp_path: Path) -> None:
    write_tree(tmp_path, {"name": b"amdgpu\n" + bytes(4089)})
    assert drm.SysfsFolder(str(tmp_path)).read_text("name") == "amdgpu"


def test_a_huge_file_is_cut(tmp_path: Path) -> None:
    write_tree(tmp_path, {"name": "9" * 1_000_000})
    assert len(drm.SysfsFolder(str(tmp_path)).read_text("name") or "") == 65_536


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "name")
    assert drm.SysfsFolder(str(tmp_path)).read_text("name") == ""


def test_a_missing_file_is_no_refusal_and_a_folder_is_one(tmp_path: Path) -> None:
    write_tree(tmp_path, {"there": None})
    folder = drm.SysfsFolder(str(tmp_path))
    assert (folder.read_text("absent"), folder.read_text("there")) == (None, None)
    assert folder.read_errors == {"there": "EISDIR"}


def test_a_file_that_may_not_be_opened_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(1, "not permitted", path)

    monkeypatch.setattr(os, "open", refuse)
    folder = drm.SysfsFolder(str(tmp_path))
    assert folder.read_text("gpu_busy_percent") is None
    assert folder.read_errors == {"gpu_busy_percent": "EPERM"}


def test_sensors_are_found_whatever_number_hwmon_has(tmp_path: Path) -> None:
    write_tree(tmp_path, {"hwmon/hwmon9/temp1_input": "44000\n", "hwmon/hwmon9/uevent": "X=1\n"})
    assert drm.read_sensors(drm.SysfsFolder(str(tmp_path))) == {"temp1_input": "44000"}


ROOT_PORT = "sys/devices/pci0000:00/0000:00:01.0"
SWITCH = f"{ROOT_PORT}/0000:01:00.0"
GPU = f"{SWITCH}/0000:02:00.0/0000:03:00.0"


def test_the_link_of_a_card_with_a_switch_is_the_switchs(tmp_path: Path) -> None:
    tree = {
        f"{SWITCH}/vendor": "0x1002\n",
        f"{SWITCH}/current_link_speed": "8.0 GT/s PCIe\n",
        f"{SWITCH}/current_link_width": "8\n",
        f"{GPU}/vendor": "0x1002\n",
        f"{GPU}/current_link_speed": "16.0 GT/s PCIe\n",
        f"{GPU}/current_link_width": "16\n",
    }
    device = drm.SysfsFolder(write_tree(tmp_path, tree), GPU)
    assert drm.read_pcie_link(device) == {
        "current_link_speed": "8.0 GT/s PCIe",
        "current_link_width": "8",
    }


def test_the_link_of_a_card_behind_a_strangers_switch_is_its_own(tmp_path: Path) -> None:
    tree = {
        f"{SWITCH}/vendor": "0x10b5\n",
        f"{SWITCH}/current_link_width": "8\n",
        f"{GPU}/vendor": "0x1002\n",
        f"{GPU}/current_link_width": "16\n",
    }
    assert drm.read_pcie_link(drm.SysfsFolder(write_tree(tmp_path, tree), GPU)) == {
        "current_link_width": "16"
    }


def test_a_port_of_the_machine_is_not_taken_for_the_cards_switch(tmp_path: Path) -> None:
    gpu = f"{SWITCH}/0000:02:00.0"
    tree = {
        f"{ROOT_PORT}/vendor": "0x8086\n",
        f"{ROOT_PORT}/current_link_width": "4\n",
        f"{gpu}/vendor": "0x8086\n",
        f"{gpu}/current_link_width": "16\n",
    }
    assert drm.read_pcie_link(drm.SysfsFolder(write_tree(tmp_path, tree), gpu)) == {
        "current_link_width": "16"
    }
