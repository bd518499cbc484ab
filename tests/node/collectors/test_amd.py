"""The amd collector: identity and figures, from files of `amdgpu`, in the model's units."""

from pathlib import Path

import pytest

from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu
from tests.node.collectors.amd_files import read_gpu, read_gpus
from tests.node.file_trees import Content, drm_card, write_tree
from tests.verdicts import judge_once


def test_a_card_with_nothing_readable_is_listed_with_nothing_known(tmp_path: Path) -> None:
    gpu = read_gpu(tmp_path, {})
    known = {
        f: getattr(gpu, f)
        for f in Gpu.__struct_fields__
        if f in RANGES and f not in ("index", "more_processes")
    }
    assert set(known.values()) == {None}
    assert (gpu.uuid, gpu.pci_bus_id) == ("amd-0000:03:00.0", "00000000:03:00.0")
    assert gpu.name == "AMD Radeon RX 7900 XT/7900 XTX"


@pytest.mark.parametrize(
    "written, uuid",
    [
        ("249220e172fc1a88\n", "GPU-249220e172fc1a88"),
        ("2150e7d042a1124\n", "GPU-02150e7d042a1124"),
        ("0000000000000000\n", "amd-0000:03:00.0"),
        ("\n", "amd-0000:03:00.0"),
        ("-1\n", "amd-0000:03:00.0"),
    ],
)
def test_a_card_is_known_by_its_unique_id_or_else_its_address(
    tmp_path: Path, written: str, uuid: str
) -> None:
    assert read_gpu(tmp_path, {"unique_id": written}).uuid == uuid


def test_two_cards_with_one_id_stay_two(tmp_path: Path) -> None:
    same: dict[str, Content] = {"unique_id": "249220e172fc1a88\n"}
    tree = drm_card("amdgpu", files=same) | drm_card(
        "amdgpu", number=2, pci="0000:04:00.0", files=same
    )
    assert [gpu.uuid for gpu in read_gpus(write_tree(tmp_path, tree))] == [
        "GPU-249220e172fc1a88",
        "amd-0000:04:00.0",
    ]


def test_a_card_without_a_name_is_named_by_its_pci_id(tmp_path: Path) -> None:
    gpu = read_gpu(tmp_path, {"product_name": "\n"}, pci_id="1002:FFFE")
    assert gpu.name == "AMD GPU [1002:fffe]"


def test_a_name_is_made_harmless(tmp_path: Path) -> None:
    assert read_gpu(tmp_path, {"product_name": "\x1b[2JInstinct\n"}).name == "[2JInstinct"


def test_power_is_the_average_where_there_is_one(tmp_path: Path) -> None:
    hwmon = "hwmon/hwmon4"
    files: dict[str, Content] = {
        f"{hwmon}/power1_average": "3103000\n",
        f"{hwmon}/power1_input": "3142000\n",
        f"{hwmon}/power1_cap": "155000000\n",
    }
    gpu = read_gpu(tmp_path, files)
    assert (gpu.power_watts, gpu.power_limit_watts) == (3.103, 155.0)


def test_power_is_the_input_where_there_is_no_average(tmp_path: Path) -> None:
    assert read_gpu(tmp_path, {"hwmon/hwmon4/power1_input": "9087000\n"}).power_watts == 9.087


@pytest.mark.parametrize(
    "labels, expected",
    [
        ({1: "junction", 2: "edge", 3: "mem"}, 42.0),
        ({1: "mem", 2: "junction"}, 42.0),
        ({1: "mem", 2: None}, 42.0),
        ({2: "mem"}, None),
    ],
)
def test_the_temperature_is_that_of_the_edge_if_it_is_known(
    tmp_path: Path, labels: dict[int, str | None], expected: float | None
) -> None:
    files: dict[str, Content] = {}
    for number, label in labels.items():
        files[f"hwmon/hwmon1/temp{number}_input"] = "42000\n" if number == 2 else "90000\n"
        if label:
            files[f"hwmon/hwmon1/temp{number}_label"] = f"{label}\n"
    gpu = read_gpu(tmp_path, files)
    assert gpu.temperature_celsius == expected
    sensor = next((number for number, label in labels.items() if label == "mem"), None)
    assert gpu.memory_temperature_celsius == (42.0 if sensor == 2 else 90.0)


@pytest.mark.parametrize(
    "duty, speed, expected",
    [("51", "600", 20.0), (None, "640", 20.0), ("0", "0", 0.0), ("0", "1600", 50.0)],
)
def test_the_fan_is_given_in_percent(
    tmp_path: Path, duty: str | None, speed: str, expected: float
) -> None:
    files: dict[str, Content] = {"pwm1_max": "255", "fan1_input": speed, "fan1_max": "3200"}
    files |= {"pwm1": duty} if duty else {}
    gpu = read_gpu(tmp_path, {f"hwmon/hwmon1/{name}": text for name, text in files.items()})
    assert gpu.fan_percent == expected


def test_a_card_without_a_fan_has_no_fan_percent(tmp_path: Path) -> None:
    assert read_gpu(tmp_path, {"hwmon/hwmon1/temp1_input": "42000\n"}).fan_percent is None


def test_clocks_are_measured_or_else_the_level_that_is_marked(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "pp_dpm_sclk": "S: 19Mhz \n0: 500Mhz \n1: 77Mhz *\n2: 2254Mhz \n",
        "pp_dpm_mclk": "0: 96Mhz \n1: 456Mhz *\n2: 1218Mhz \n",
        "hwmon/hwmon4/freq1_input": "2011000000\n",
        "hwmon/hwmon4/freq1_label": "sclk\n",
    }
    gpu = read_gpu(tmp_path, files)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) == (2011, 2254)
    assert (gpu.memory_clock_mhz, gpu.memory_clock_max_mhz) == (456, 1218)


@pytest.mark.parametrize(
    "speed, generation",
    [("2.5", 1), ("5.0", 2), ("8.0", 3), ("16.0", 4), ("32.0", 5), ("64.0", 6), ("9.9", None)],
)
def test_a_links_speed_is_its_generation(
    tmp_path: Path, speed: str, generation: int | None
) -> None:
    files: dict[str, Content] = {
        "current_link_speed": f"{speed} GT/s PCIe\n",
        "max_link_speed": "64.0 GT/s PCIe\n",
        "current_link_width": "8\n",
        "max_link_width": "16\n",
    }
    gpu = read_gpu(tmp_path, files)
    assert (gpu.pcie_generation, gpu.pcie_generation_max) == (generation, 6)
    assert (gpu.pcie_width, gpu.pcie_width_max) == (8, 16)


def test_ecc_errors_are_summed_over_the_blocks_that_count_them(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "ras/umc_err_count": "ue: 1\nce: 30\n",
        "ras/gfx_err_count": "ue: 0\nce: 4\n",
    }
    gpu = read_gpu(tmp_path, files)
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (34, 1)


MEMORY: dict[str, Content] = {
    "mem_info_vram_total": "536870912\n",
    "mem_info_vram_used": "500000000\n",
    "mem_info_gtt_total": "16441004032\n",
    "mem_info_gtt_used": "3946811392\n",
}


def test_a_cards_memory_is_its_own(tmp_path: Path) -> None:
    gpu = read_gpu(tmp_path, MEMORY)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (500000000, 536870912)
    assert not gpu.memory_shared


def test_a_processors_gpu_has_what_was_set_aside_and_what_it_may_take(tmp_path: Path) -> None:
    gpu = read_gpu(tmp_path, {**MEMORY, "hwmon/hwmon6/in1_label": "vddnb\n"})
    assert gpu.memory_used_bytes == 500000000 + 3946811392
    assert gpu.memory_total_bytes == 536870912 + 16441004032
    assert gpu.memory_shared


def test_an_idle_gpu_of_a_processor_is_free_though_its_clients_may_not_be_seen(
    tmp_path: Path,
) -> None:
    files: dict[str, Content] = {**MEMORY, "hwmon/hwmon6/in1_label": "vddnb\n"}
    gpu = read_gpu(tmp_path, files | {"gpu_busy_percent": "0\n"})
    assert gpu.processes is None
    verdict = judge_once(gpu)
    assert verdict.state == "free"
    assert verdict.reason.startswith("idle; processes not readable, memory shared with the host")
