"""The amd collector: files of `amdgpu` in the model's units."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node.bindings import amdgpu
from fleet_smi.node.collectors.amd import AmdCollector
from tests.node.file_trees import Content, drm_card, drm_client, write_tree

KFD = "sys/class/kfd/kfd"


def gpus(root: str) -> tuple[Gpu, ...]:
    return AmdCollector().parse(amdgpu.read(root)).gpus


def only(tmp_path: Path, files: dict[str, Content], **extra: Any) -> Gpu:
    (gpu,) = gpus(write_tree(tmp_path, drm_card("amdgpu", files=files, **extra)))
    return gpu


def test_a_card_with_nothing_readable_is_listed_with_nothing_known(tmp_path: Path) -> None:
    gpu = only(tmp_path, {})
    known = {f: getattr(gpu, f) for f in Gpu.__struct_fields__ if f in RANGES and f != "index"}
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
    assert only(tmp_path, {"unique_id": written}).uuid == uuid


def test_two_cards_with_one_id_stay_two(tmp_path: Path) -> None:
    same: dict[str, Content] = {"unique_id": "249220e172fc1a88\n"}
    tree = drm_card("amdgpu", files=same) | drm_card(
        "amdgpu", number=2, pci="0000:04:00.0", files=same
    )
    assert [gpu.uuid for gpu in gpus(write_tree(tmp_path, tree))] == [
        "GPU-249220e172fc1a88",
        "amd-0000:04:00.0",
    ]


def test_a_card_without_a_name_is_named_by_its_pci_id(tmp_path: Path) -> None:
    gpu = only(tmp_path, {"product_name": "\n"}, pci_id="1002:FFFE")
    assert gpu.name == "AMD GPU [1002:fffe]"


def test_a_name_is_made_harmless(tmp_path: Path) -> None:
    assert only(tmp_path, {"product_name": "\x1b[2JInstinct\n"}).name == "[2JInstinct"


def test_power_is_the_average_where_there_is_one(tmp_path: Path) -> None:
    hwmon = "hwmon/hwmon4"
    files: dict[str, Content] = {
        f"{hwmon}/power1_average": "3103000\n",
        f"{hwmon}/power1_input": "3142000\n",
        f"{hwmon}/power1_cap": "155000000\n",
    }
    gpu = only(tmp_path, files)
    assert (gpu.power_watts, gpu.power_limit_watts) == (3.103, 155.0)


def test_power_is_the_input_where_there_is_no_average(tmp_path: Path) -> None:
    assert only(tmp_path, {"hwmon/hwmon4/power1_input": "9087000\n"}).power_watts == 9.087


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
    gpu = only(tmp_path, files)
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
    gpu = only(tmp_path, {f"hwmon/hwmon1/{name}": text for name, text in files.items()})
    assert gpu.fan_percent == expected


def test_a_card_without_a_fan_has_no_fan_percent(tmp_path: Path) -> None:
    assert only(tmp_path, {"hwmon/hwmon1/temp1_input": "42000\n"}).fan_percent is None


def test_clocks_are_measured_or_else_the_level_that_is_marked(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "pp_dpm_sclk": "S: 19Mhz \n0: 500Mhz \n1: 77Mhz *\n2: 2254Mhz \n",
        "pp_dpm_mclk": "0: 96Mhz \n1: 456Mhz *\n2: 1218Mhz \n",
        "hwmon/hwmon4/freq1_input": "2011000000\n",
        "hwmon/hwmon4/freq1_label": "sclk\n",
    }
    gpu = only(tmp_path, files)
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
    gpu = only(tmp_path, files)
    assert (gpu.pcie_generation, gpu.pcie_generation_max) == (generation, 6)
    assert (gpu.pcie_width, gpu.pcie_width_max) == (8, 16)


def test_a_card_that_fell_off_the_bus_is_lost(tmp_path: Path) -> None:
    files: dict[str, Content] = {"current_link_speed": "Unknown\n", "current_link_width": "63\n"}
    gpu = only(tmp_path, files)
    assert gpu.fault is not None
    assert (gpu.fault.kind, gpu.pcie_width) == ("lost", None)


def test_ecc_errors_are_summed_over_the_blocks_that_count_them(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "ras/umc_err_count": "ue: 1\nce: 30\n",
        "ras/gfx_err_count": "ue: 0\nce: 4\n",
    }
    gpu = only(tmp_path, files)
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (34, 1)


MEMORY: dict[str, Content] = {
    "mem_info_vram_total": "536870912\n",
    "mem_info_vram_used": "500000000\n",
    "mem_info_gtt_total": "16441004032\n",
    "mem_info_gtt_used": "3946811392\n",
}


def test_a_cards_memory_is_its_own(tmp_path: Path) -> None:
    gpu = only(tmp_path, MEMORY)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (500000000, 536870912)
    assert not gpu.memory_shared


def test_a_processors_gpu_has_what_was_set_aside_and_what_it_may_take(tmp_path: Path) -> None:
    gpu = only(tmp_path, {**MEMORY, "hwmon/hwmon6/in1_label": "vddnb\n"})
    assert gpu.memory_used_bytes == 500000000 + 3946811392
    assert gpu.memory_total_bytes == 536870912 + 16441004032
    assert gpu.memory_shared


def test_a_value_that_cannot_be_is_not_known_and_says_why(tmp_path: Path) -> None:
    gpu = only(tmp_path, {"gpu_busy_percent": "65535\n"})
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
    gpu = only(tmp_path, files)
    assert (gpu.asleep, gpu.uuid, gpu.busy_percent) == (True, "GPU-249220e172fc1a88", None)
    assert gpu.processes is None


def compute_nodes(*locations: int) -> dict[str, Content]:
    tree: dict[str, Content] = {f"{KFD}/topology/nodes/0/properties": "simd_count 0\n"}
    for node, location in enumerate(locations, 1):
        tree[f"{KFD}/topology/nodes/{node}/gpu_id"] = f"{1000 + node}\n"
        tree[f"{KFD}/topology/nodes/{node}/properties"] = (
            f"simd_count 24\nvendor_id 4098\nlocation_id {location}\ndomain 0\n"
        )
    return tree | {f"{KFD}/proc": None}


TWO_CARDS = drm_card("amdgpu") | drm_card("amdgpu", number=2, pci="0000:04:00.0")


def test_a_process_is_on_the_gpus_it_holds_memory_or_queues_of(tmp_path: Path) -> None:
    tree = (
        TWO_CARDS
        | compute_nodes(0x300, 0x400)
        | {
            f"{KFD}/proc/41/vram_1001": "1048576\n",
            f"{KFD}/proc/41/vram_1002": "0\n",
            f"{KFD}/proc/42/vram_1002": "0\n",
            f"{KFD}/proc/42/queues/1/gpuid": "1002\n",
            "proc/1/fd/0": Path("/dev/null"),
        }
    )
    first, second = gpus(write_tree(tmp_path, tree))
    assert first.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=1048576),)
    assert second.processes == (Process(pid=42, kind="compute", gpu_memory_bytes=0),)
    assert "processes" not in first.unread


def test_gpus_are_counted_as_hip_counts_them(tmp_path: Path) -> None:
    tree = TWO_CARDS | compute_nodes(0x400, 0x300)
    found = gpus(write_tree(tmp_path, tree))
    assert [(g.index, g.uuid) for g in found] == [(0, "amd-0000:04:00.0"), (1, "amd-0000:03:00.0")]


def test_processes_on_partitions_are_on_the_card(tmp_path: Path) -> None:
    tree = (
        drm_card("amdgpu")
        | compute_nodes(0x300, 0x301, 0x302)
        | {
            f"{KFD}/proc/41/vram_1002": "100\n",
            f"{KFD}/proc/41/vram_1003": "20\n",
            "proc/1/fd/0": Path("/dev/null"),
        }
    )
    (gpu,) = gpus(write_tree(tmp_path, tree))
    assert gpu.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=120),)


def test_memory_that_both_drivers_count_is_not_added(tmp_path: Path) -> None:
    tree = drm_card("amdgpu") | compute_nodes(0x300) | {f"{KFD}/proc/41/vram_1001": "4096\n"}
    tree |= drm_client(41, "renderD128", drm_memory_vram="5 KiB", drm_memory_gtt="9 KiB")
    (gpu,) = gpus(write_tree(tmp_path, tree))
    assert gpu.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=5120),)


@pytest.mark.parametrize(
    "engines, kind",
    [
        ({}, "graphics"),
        ({"drm_engine_gfx": "9 ns", "drm_engine_compute": "0 ns"}, "graphics"),
        ({"drm_engine_compute": "9 ns"}, "compute"),
        ({"drm_engine_compute": "9 ns", "drm_engine_gfx": "9 ns"}, "compute+graphics"),
    ],
)
def test_the_kind_of_a_client_follows_from_its_engines(
    tmp_path: Path, engines: dict[str, str], kind: str
) -> None:
    tree = drm_card("amdgpu") | drm_client(41, "renderD128", 5, drm_memory_vram="2 MiB", **engines)
    (gpu,) = gpus(write_tree(tmp_path, tree))
    assert gpu.processes is not None
    assert [(p.kind, p.gpu_memory_bytes) for p in gpu.processes] == [(kind, 2 << 20)]


def test_no_process_is_not_the_same_as_unknown_processes(tmp_path: Path) -> None:
    looked = write_tree(
        tmp_path / "looked", drm_card("amdgpu") | {"proc/1/fd/0": Path("/dev/null")}
    )
    blind = write_tree(tmp_path / "blind", drm_card("amdgpu"))
    assert [gpus(root)[0].processes for root in (looked, blind)] == [(), None]


def test_unreadable_clients_are_reported_beside_compute_processes(tmp_path: Path) -> None:
    raw = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu") | compute_nodes(0x300)))
    raw["drm"] = {"clients": [], "refused": 300, "whole": True, "listed": True}
    (gpu,) = AmdCollector().parse(raw).gpus
    assert gpu.processes == ()
    assert "300 processes cannot be read without root" in gpu.unread["processes"]


HOSTILE = st.one_of(
    st.none(),
    st.just(Path("/proc/self/mem")),  # can be opened, but reads fail with EIO
    st.binary(max_size=40),
    st.integers().map(str),
    st.sampled_from(
        [
            "",
            "9" * 5000,
            "-1",
            "4294967295",
            "1e400",
            "nan",
            "0x10",
            "0: 99999999Mhz *",
            "64.0 GT/s PCIe",
            "edge",
            "vddnb",
            "ue: 99999999999999999999\nce: -1",
            "5 KiB",
        ]
    ),
)
NAMES = (
    "uevent",
    "unique_id",
    "product_name",
    "gpu_busy_percent",
    "mem_busy_percent",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "mem_info_gtt_total",
    "mem_info_gtt_used",
    "pp_dpm_sclk",
    "pp_dpm_mclk",
    "current_link_speed",
    "current_link_width",
    "max_link_width",
    "ras/umc_err_count",
    "hwmon/hwmon1/temp1_input",
    "hwmon/hwmon1/temp1_label",
    "hwmon/hwmon1/in1_label",
    "hwmon/hwmon1/power1_average",
    "hwmon/hwmon1/power1_cap",
    "hwmon/hwmon1/pwm1",
    "hwmon/hwmon1/pwm1_max",
    "hwmon/hwmon1/fan1_input",
    "hwmon/hwmon1/fan1_max",
    "hwmon/hwmon1/freq1_input",
    "hwmon/hwmon1/freq1_label",
)
ELSEWHERE = (
    f"{KFD}/topology/nodes/1/gpu_id",
    f"{KFD}/topology/nodes/1/properties",
    f"{KFD}/proc/41/vram_1001",
    f"{KFD}/proc/41/queues/0/gpuid",
    "proc/41/fdinfo/5",
)


@settings(max_examples=60, deadline=None)
@given(
    files=st.dictionaries(st.sampled_from(NAMES[1:]), HOSTILE),
    others=st.dictionaries(st.sampled_from(ELSEWHERE), HOSTILE),
)
def test_hostile_files_give_no_error_and_no_value_out_of_range(
    files: dict[str, Content], others: dict[str, Content]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = drm_card("amdgpu", files=files) | compute_nodes(0x300) | drm_client(41, "renderD128")
        (gpu,) = gpus(write_tree(Path(folder), tree | others))
    for field, (low, high) in RANGES.items():
        value = getattr(gpu, field, None)
        assert value is None or low <= value <= high
    for process in gpu.processes or ():
        assert process.gpu_memory_bytes is None or 0 <= process.gpu_memory_bytes <= 2**50
