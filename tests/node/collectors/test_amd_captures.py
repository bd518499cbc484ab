"""Captured AMD machines, read and compared with a plain reading of their files."""

import re
from pathlib import Path

import pytest

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import amdgpu
from tests.node.collectors.amd_files import KFD, read_gpus
from tests.node.file_trees import Content, capture_paths, drm_card, link_capture, write_tree


def text(path: Path) -> str | None:
    return path.read_bytes().replace(b"\0", b"").decode().strip() if path.is_file() else None


def number(path: Path, factor: float = 1.0) -> float | None:
    found = text(path)
    return float(found) * factor if found else None


@pytest.mark.parametrize("capture", capture_paths("amd/sysfs"), ids=lambda path: path.name)
def test_captured_machines_read_as_their_files_say(tmp_path: Path, capture: Path) -> None:
    root = link_capture(tmp_path, capture)
    if capture.name == "hd7870":
        with pytest.raises(NotPresent):
            amdgpu.read(root)
        return
    (gpu,) = read_gpus(root)
    (device,) = capture.glob("card*/device")
    (hwmon,) = (device / "hwmon").iterdir()
    apu = capture.name in ("phoenix", "strixpoint")
    assert gpu.memory_shared is apu
    assert gpu.busy_percent == number(device / "gpu_busy_percent")
    assert gpu.memory_busy_percent == number(device / "mem_busy_percent")
    for field, what in (("memory_used_bytes", "used"), ("memory_total_bytes", "total")):
        vram, gtt = (number(device / f"mem_info_{pool}_{what}") for pool in ("vram", "gtt"))
        assert getattr(gpu, field) == ((vram or 0) + (gtt or 0) if apu else vram)
    assert gpu.power_watts == pytest.approx(number(hwmon / "power1_average", 1e-6))
    assert gpu.power_limit_watts == pytest.approx(number(hwmon / "power1_cap", 1e-6))
    assert text(hwmon / "temp1_label") == "edge"
    assert gpu.temperature_celsius == pytest.approx(number(hwmon / "temp1_input", 1e-3))
    if text(hwmon / "temp3_label") == "mem":
        assert gpu.memory_temperature_celsius == number(hwmon / "temp3_input", 1e-3)
    assert gpu.sm_clock_mhz == pytest.approx(number(hwmon / "freq1_input", 1e-6), abs=0.5)
    if (hwmon / "freq2_input").exists():
        assert gpu.memory_clock_mhz == number(hwmon / "freq2_input", 1e-6)
    assert gpu.pcie_width == number(device / "current_link_width")
    slot = re.search(r"PCI_SLOT_NAME=(\S+)", text(device / "uevent") or "")
    assert slot is not None
    assert gpu.pci_bus_id == f"0000{slot[1]}".upper()
    assert not (gpu.name or "").startswith("AMD GPU [")
    assert gpu.fault is None


@pytest.mark.parametrize("capture", capture_paths("amd/kfd-topology"), ids=lambda path: path.name)
def test_captured_topologies_find_their_cards(tmp_path: Path, capture: Path) -> None:
    nodes = next(path for path in capture.rglob("nodes"))
    read = [
        dict(line.split(" ") for line in (text(path) or "").splitlines())
        for path in nodes.glob("*/properties")
    ]
    read = [properties for properties in read if properties["simd_count"] != "0"]
    tree: dict[str, Content] = {f"{KFD}/topology/nodes": nodes}
    unique_ids = {properties["unique_id"] for properties in read}
    for place, unique_id in enumerate(sorted(unique_ids)):
        # The first node of a card is the one that has the card's own device file.
        parts = [properties for properties in read if properties["unique_id"] == unique_id]
        first = min(parts, key=lambda properties: int(properties["drm_render_minor"]))
        bus = int(first["location_id"]) >> 8
        # One capture has two cards at one address.
        domain = int(first.get("domain", place))
        number = int(first["drm_render_minor"]) - 127
        tree |= drm_card("amdgpu", number=number, pci=f"{domain:04x}:{bus:02x}:00.0")
    found = read_gpus(write_tree(tmp_path, tree))
    assert {gpu.uuid for gpu in found} == {f"GPU-{int(u):016x}" for u in unique_ids}


@pytest.mark.parametrize("archive", capture_paths("amd/sysfs-ttar"), ids=lambda path: path.name)
def test_the_captured_archive_reads_as_its_files_say(tmp_path: Path, archive: Path) -> None:
    entry = re.compile(r"^Path: fixtures/(\S+)\nLines: (\d+)\n((?:(?!Mode: ).*\n)*)", re.MULTILINE)
    tree: dict[str, Content] = {m[1]: m[3] for m in entry.finditer(archive.read_text())}
    (gpu,) = read_gpus(write_tree(tmp_path, tree))
    assert (gpu.uuid, gpu.name) == ("GPU-0123456789abcdef", "AMD Radeon RX Vega 56/64")
    assert (gpu.busy_percent, gpu.memory_used_bytes) == (4, 1490378752)
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.sm_clock_mhz) == (3, 16, 852)
