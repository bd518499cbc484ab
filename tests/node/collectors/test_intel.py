"""The intel collector: files of `xe` and `i915` in the model's units."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node.bindings import intel_gpu
from fleet_smi.node.collectors.intel import IntelCollector
from tests.figure_ranges import assert_in_range
from tests.node.file_trees import (
    Content,
    capture_paths,
    drm_card,
    drm_client,
    link_capture,
    write_tree,
)
from tests.verdicts import judge_once

ARC = "8086:56A5"


def gpus(root: str, at: float = 0.0) -> tuple[Gpu, ...]:
    raw = intel_gpu.read(root, clock=lambda: at, sleep=lambda _: None)
    return IntelCollector().parse(raw).gpus


def only(tmp_path: Path, files: dict[str, Content], driver: str = "xe", **extra: Any) -> Gpu:
    (gpu,) = gpus(write_tree(tmp_path, drm_card(driver, ARC, files=files, **extra)))
    return gpu


def test_a_gpu_is_known_by_its_address_and_named_by_its_pci_id(tmp_path: Path) -> None:
    gpu = only(tmp_path, {})
    assert (gpu.uuid, gpu.pci_bus_id) == ("intel-0000:03:00.0", "00000000:03:00.0")
    assert (gpu.name, gpu.vendor, gpu.memory_shared) == ("Intel Arc A380", "intel", False)


def test_figures_that_the_driver_lacks_are_unknown_with_a_reason(tmp_path: Path) -> None:
    gpu = only(tmp_path, {})
    assert (gpu.busy_percent, gpu.memory_used_bytes, gpu.fan_percent) == (None, None, None)
    assert gpu.unread["busy_percent"] == "not offered by this driver without root"


def test_a_gpu_in_the_processor_shares_the_hosts_memory(tmp_path: Path) -> None:
    assert only(tmp_path, {}, driver="i915", pci="0000:00:02.0").memory_shared


def test_power_is_what_was_drawn_between_two_readings(tmp_path: Path) -> None:
    counter = "sys/class/drm/card1/device/hwmon/hwmon1/energy1_input"
    root = write_tree(tmp_path, drm_card("i915", ARC) | {counter: "25637161804\n"})
    (first,) = gpus(root, at=100.0)
    write_tree(tmp_path, {counter: "25717161804\n"})
    (second,) = gpus(root, at=102.0)
    assert (first.power_watts, second.power_watts) == (None, 40.0)


@pytest.mark.parametrize(
    "driver, name",
    [
        ("xe", "device/tile0/gt0/gtidle/idle_residency_ms"),
        ("i915", "gt/gt0/rc6_residency_ms"),
        ("i915", "power/rc6_residency_ms"),
    ],
)
def test_utilisation_is_what_was_not_idle_between_two_looks(
    tmp_path: Path, driver: str, name: str
) -> None:
    counter = f"sys/class/drm/card1/{name}"
    root = write_tree(tmp_path, drm_card(driver, ARC) | {counter: "848095\n"})
    (first,) = gpus(root, at=100.0)
    assert first.busy_percent is None
    for now, at, busy in (
        ("850095", 102.0, 0.0),
        ("850595", 104.0, 75.0),
        ("850600", 104.01, None),
    ):
        write_tree(tmp_path, {counter: f"{now}\n"})
        (gpu,) = gpus(root, at=at)
        assert gpu.busy_percent == busy
    write_tree(tmp_path, {counter: "12\n"})
    assert gpus(root, at=106.0)[0].busy_percent is None  # the driver was loaded again


def test_the_busiest_part_of_a_card_is_its_utilisation(tmp_path: Path) -> None:
    folder = "sys/class/drm/card1/device/tile0"
    names = [f"{folder}/gt{number}/gtidle/idle_residency_ms" for number in (0, 1)]
    root = write_tree(tmp_path, drm_card("xe", ARC) | dict.fromkeys(names, "1000\n"))
    gpus(root, at=0.0)
    write_tree(tmp_path, {names[0]: "3000\n", names[1]: "1500\n"})
    assert gpus(root, at=2.0)[0].busy_percent == 75.0


def test_the_first_read_looks_twice(tmp_path: Path) -> None:
    counter = "sys/class/drm/card1/device/tile0/gt0/gtidle/idle_residency_ms"
    root = write_tree(tmp_path, drm_card("xe", ARC) | {counter: "1000\n"})
    now = [50.0]

    def wait(seconds: float) -> None:
        now[0] += seconds
        write_tree(tmp_path, {counter: f"{1000 + round(500 * seconds)}\n"})

    raw = intel_gpu.read(root, clock=lambda: now[0], sleep=wait)
    (gpu,) = IntelCollector().parse(raw).gpus
    assert gpu.busy_percent == pytest.approx(50.0)
    # With nobody listed and nothing done, a discrete card is free.
    write_tree(tmp_path, {counter: "999999\n"})
    raw = intel_gpu.read(root, clock=lambda: now[0] + 100, sleep=wait)
    (idle,) = IntelCollector().parse(raw).gpus
    assert (idle.busy_percent, idle.processes) == (0.0, None)
    assert judge_once(idle).state == "free"


def test_a_card_counter_that_stays_at_zero_gives_way_to_the_packages(tmp_path: Path) -> None:
    hwmon = "sys/class/drm/card1/device/hwmon/hwmon1"
    labels: dict[str, Content] = {
        f"{hwmon}/energy1_label": "card\n",
        f"{hwmon}/energy1_input": "0\n",
        f"{hwmon}/energy2_label": "pkg\n",
        f"{hwmon}/energy2_input": "1000000\n",
    }
    root = write_tree(tmp_path, drm_card("xe", ARC) | labels)
    gpus(root, at=0.0)
    write_tree(tmp_path, {f"{hwmon}/energy2_input": "31000000\n"})
    assert gpus(root, at=2.0)[0].power_watts == 15.0


@pytest.mark.parametrize("now, at", [("999\n", 2.0), ("31000000\n", 0.01), ("x\n", 2.0)])
def test_a_counter_that_stays_at_zero_gives_no_power(tmp_path: Path, now: str, at: float) -> None:
    counter = "sys/class/drm/card1/device/hwmon/hwmon1/energy1_input"
    root = write_tree(tmp_path, drm_card("i915", ARC) | {counter: "1000000\n"})
    gpus(root, at=0.0)
    write_tree(tmp_path, {counter: now})
    (gpu,) = gpus(root, at=at)
    assert gpu.power_watts is None
    assert "power_watts" not in gpu.unread


@pytest.mark.parametrize(
    "hwmon, limit",
    [
        ({"power1_max": "55000000"}, 55.0),
        ({"power1_max": "0"}, None),
        ({"power1_crit": "380000000"}, None),
        ({"power2_label": "pkg", "power2_max": "55000000"}, 55.0),
    ],
)
def test_the_limit_is_the_sustained_one(
    tmp_path: Path, hwmon: dict[str, str], limit: float | None
) -> None:
    files: dict[str, Content] = {f"hwmon/hwmon1/{name}": text for name, text in hwmon.items()}
    assert only(tmp_path, files).power_limit_watts == limit


def test_the_temperature_of_the_memory_is_not_the_gpus(tmp_path: Path) -> None:
    memory: dict[str, Content] = {
        "hwmon/hwmon1/temp3_input": "54000\n",
        "hwmon/hwmon1/temp3_label": "vram\n",
    }
    package: dict[str, Content] = {
        "hwmon/hwmon1/temp2_input": "56000\n",
        "hwmon/hwmon1/temp2_label": "pkg\n",
    }
    assert only(tmp_path / "a", memory).temperature_celsius is None
    both = only(tmp_path / "b", memory | package)
    assert (both.temperature_celsius, both.memory_temperature_celsius) == (56.0, 54.0)


def test_energy_is_that_of_the_first_counter_that_counts(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "hwmon/hwmon1/energy1_input": "0\n",
        "hwmon/hwmon1/energy1_label": "card\n",
        "hwmon/hwmon1/energy2_input": "29523753173\n",
        "hwmon/hwmon1/energy2_label": "pkg\n",
    }
    assert only(tmp_path, files).energy_joules == 29523.753173


def test_reasons_to_throttle_are_named(tmp_path: Path) -> None:
    folder = "tile0/gt0/freq0/throttle"
    quiet: dict[str, Content] = {f"{folder}/reason_pl1": "0\n", f"{folder}/reason_thermal": "0\n"}
    hot = quiet | {f"{folder}/reason_thermal": "1\n"}
    assert only(tmp_path / "a", {}).throttle_reasons is None
    assert only(tmp_path / "b", quiet).throttle_reasons == ()
    assert only(tmp_path / "c", hot).throttle_reasons == ("thermal",)


def test_the_sum_of_i915s_reasons_is_not_one_of_them(tmp_path: Path) -> None:
    folder = "sys/class/drm/card1/gt/gt0"
    tree = drm_card("i915", ARC) | {
        f"{folder}/throttle_reason_status": "1\n",
        f"{folder}/throttle_reason_pl1": "1\n",
    }
    assert gpus(write_tree(tmp_path, tree))[0].throttle_reasons == ("pl1",)


def test_card_memory_is_read_where_the_kernel_has_it(tmp_path: Path) -> None:
    tree = drm_card("i915", ARC) | {
        "sys/class/drm/card1/lmem_total_bytes": "6000\n",
        "sys/class/drm/card1/lmem_avail_bytes": "1000\n",
    }
    (gpu,) = gpus(write_tree(tmp_path, tree))
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes) == (6000, 5000)
    tiles: dict[str, Content] = {
        "tile0/physical_vram_size_bytes": "500\n",
        "tile1/physical_vram_size_bytes": "500\n",
    }
    assert only(tmp_path / "tiles", tiles).memory_total_bytes == 1000


@pytest.mark.parametrize(
    "pci, expected", [("0000:03:00.0", 3 << 20), ("0000:00:02.0", (3 << 20) + 4096)]
)
def test_a_clients_memory_is_where_the_gpu_has_its_own(
    tmp_path: Path, pci: str, expected: int
) -> None:
    tree = drm_card("xe", ARC, pci=pci) | drm_client(
        41,
        "renderD128",
        drm_pdev=pci,
        drm_resident_vram0="3 MiB",
        drm_resident_system="4 KiB",
        drm_cycles_ccs="55",
        drm_total_cycles_ccs="66",
    )
    (gpu,) = gpus(write_tree(tmp_path, tree))
    assert gpu.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=expected),)


def test_clients_that_may_not_be_seen_make_the_list_unknown(tmp_path: Path) -> None:
    raw = intel_gpu.read(write_tree(tmp_path, drm_card("xe", ARC) | drm_client(41, "renderD128")))
    raw["drm"]["refused"] = 3
    (some,) = IntelCollector().parse(raw).gpus
    raw["drm"]["clients"] = []
    (none,) = IntelCollector().parse(raw).gpus
    assert [process.pid for process in some.processes or ()] == [41]
    assert none.processes is None
    assert "3 processes" in none.unread["processes"]


def test_a_sleeping_card_is_listed(tmp_path: Path) -> None:
    gpu = only(tmp_path, {"power/runtime_status": "suspended\n"})
    assert (gpu.asleep, gpu.processes, gpu.sm_clock_mhz) == (True, None, None)


CLOCKS = {
    "a380-i915": ("card1/gt/gt0/rps_act_freq_mhz", "card1/gt/gt0/rps_RP0_freq_mhz"),
    "a380-xe": ("card0/device/tile0/gt0/freq0/act_freq", "card0/device/tile0/gt0/freq0/rp0_freq"),
    "b580-6.16": ("card1/device/tile0/gt0/freq0/act_freq", "card1/device/tile0/gt0/freq0/rp0_freq"),
    "cometlake": ("card0/gt_act_freq_mhz", "card0/gt_RP0_freq_mhz"),
}
HEAT = {"a380-i915": "temp1_input", "a380-xe": "temp2_input", "b580-6.16": "temp2_input"}
LIMIT = {"a380-i915": "power1_max", "a380-xe": "power2_max"}


def number(path: Path) -> int:
    return int(path.read_bytes().replace(b"\0", b""))


@pytest.mark.parametrize("capture", capture_paths("intel/sysfs"), ids=lambda path: path.name)
def test_captured_machines_read_as_their_files_say(tmp_path: Path, capture: Path) -> None:
    (gpu,) = gpus(link_capture(tmp_path, capture))
    clock, most = CLOCKS[capture.name]
    assert gpu.sm_clock_mhz == number(capture / clock)
    assert gpu.sm_clock_max_mhz == number(capture / most)
    hwmon = next(capture.glob("card*/device/hwmon/*"), Path("/nonexistent"))
    heat, limit = HEAT.get(capture.name), LIMIT.get(capture.name)
    assert gpu.temperature_celsius == (number(hwmon / heat) / 1000 if heat else None)
    assert gpu.power_limit_watts == (number(hwmon / limit) / 1e6 if limit else None)
    assert gpu.power_watts is None
    assert gpu.throttle_reasons == (None if capture.name == "cometlake" else ())
    assert gpu.memory_shared is (capture.name == "cometlake")
    assert not (gpu.name or "").startswith("Intel GPU [")
    assert gpu.fault is None


HOSTILE = st.one_of(
    st.none(),
    st.just(Path("/proc/self/mem")),  # can be opened, but reads fail with EIO
    st.binary(max_size=40),
    st.integers().map(str),
    st.sampled_from(["", "9" * 5000, "-1", "4294967295", "nan", "pkg", "card", "1", "2.5 GT/s"]),
)
NAMES = (
    "hwmon/hwmon1/temp1_input",
    "hwmon/hwmon1/temp1_label",
    "hwmon/hwmon1/energy1_input",
    "hwmon/hwmon1/energy1_label",
    "hwmon/hwmon1/power1_max",
    "tile0/gt0/freq0/act_freq",
    "tile0/gt0/freq0/rp0_freq",
    "tile0/gt0/freq0/throttle/reason_pl1",
    "current_link_speed",
    "current_link_width",
    "tile0/physical_vram_size_bytes",
)


@settings(max_examples=60)
@given(
    files=st.dictionaries(st.sampled_from(NAMES), HOSTILE),
    total=HOSTILE,
    free=HOSTILE,
    client_text=st.binary(max_size=60),
)
def test_hostile_files_give_no_error_and_no_value_out_of_range(
    files: dict[str, Content], total: Content, free: Content, client_text: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = (
            drm_card("xe", ARC, files=files)
            | drm_client(41, "renderD128")
            | {
                "sys/class/drm/card1/lmem_total_bytes": total,
                "sys/class/drm/card1/lmem_avail_bytes": free,
                "proc/41/fdinfo/5": b"drm-client-id: 7\ndrm-total-vram0: " + client_text,
            }
        )
        root = write_tree(Path(folder), tree)
        gpus(root, at=0.0)
        (gpu,) = gpus(root, at=1.0)
    assert_in_range(gpu)
