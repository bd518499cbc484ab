"""The JSON of `amd-smi static`, `metric` and `process`."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.parsers.amd_smi import parse
from tests.captures import capture_files
from tests.figure_ranges import assert_in_range


def only(**entry: Any) -> Gpu:
    (gpu,) = parse(json.dumps([{"gpu": 0, **entry}]))
    return gpu


def value(number: float, unit: str) -> dict[str, Any]:
    return {"value": number, "unit": unit}


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: {"gpu_data": e}, lambda e: e[0]])
def test_the_outer_shape_of_every_release_is_parsed(wrap: Any) -> None:
    (gpu,) = parse(json.dumps(wrap([{"gpu": 3, "usage": {"gfx_activity": value(42, "%")}}])))
    assert (gpu.index, gpu.busy_percent) == (3, 42.0)


@pytest.mark.parametrize(
    "entry, field, expected",
    [
        ({"usage": {"gfx_activity": value(0, "%")}}, "busy_percent", 0.0),
        ({"usage": {"gfx_activity": "N/A"}}, "busy_percent", None),
        ({"usage": "N/A"}, "busy_percent", None),
        ({"usage": {"umc_activity": value(1, "%")}}, "memory_busy_percent", 1.0),
        ({"power": {"socket_power": value(132, "W")}}, "power_watts", 132.0),
        ({"power": {"socket_power": "N/A", "current_socket_power": 7}}, "power_watts", 7.0),
        ({"limit": {"max_power": value(750, "W")}}, "power_limit_watts", 750.0),
        (
            {"limit": {"socket_power": value(600, "W"), "max_power": value(750, "W")}},
            "power_limit_watts",
            600.0,
        ),
        ({"limit": {"ppt0": {"max_power_limit": value(1400, "W")}}}, "power_limit_watts", 1400.0),
        ({"limit": {"ppt0": "N/A", "ppt1": "N/A"}}, "power_limit_watts", None),
        ({"mem_usage": {"total_vram": value(196592, "MB")}}, "memory_total_bytes", 196592 << 20),
        ({"vram": {"size": value(16368, "MB")}}, "memory_total_bytes", 16368 << 20),
        ({"mem_usage": {"used_vram": value(283, "MB")}}, "memory_used_bytes", 283 << 20),
        ({"temperature": {"edge": "N/A", "hotspot": value(46, "C")}}, "temperature_celsius", 46.0),
        ({"temperature": {"edge": value(41, "C")}}, "temperature_celsius", 41.0),
        ({"fan": {"speed": 51, "max": 255, "usage": "N/A"}}, "fan_percent", 20.0),
        ({"fan": {"speed": 51, "usage": value(21, "%")}}, "fan_percent", 21.0),
        ({"fan": {"speed": "N/A"}}, "fan_percent", None),
        ({"clock": {"gfx_0": {"clk": value(132, "MHz")}}}, "sm_clock_mhz", 132),
        ({"clock": {"gfx_0": {"max_clk": value(2100, "MHz")}}}, "sm_clock_max_mhz", 2100),
        ({"clock": {"mem_0": {"clk": "N/A"}}}, "memory_clock_mhz", None),
        ({"pcie": {"speed": value(16, "GT/s"), "width": 8}}, "pcie_generation", 4),
        ({"pcie": {"speed": value(16, "GT/s"), "width": 8}}, "pcie_width", 8),
        ({"bus": {"max_pcie_speed": value(32, "GT/s")}}, "pcie_generation_max", 5),
        ({"ecc": {"total_uncorrectable_count": 2}}, "ecc_uncorrected", 2),
        ({"asic": {"market_name": "AMD Instinct MI300X"}}, "name", "AMD Instinct MI300X"),
        ({"asic": {"asic_serial": "0x5C88007D760374F3"}}, "uuid", "GPU-5c88007d760374f3"),
        ({"bus": {"bdf": "0000:0C:00.0"}}, "uuid", "amd-0000:0c:00.0"),
        ({"bdf": "0000:0c:00.0"}, "pci_bus_id", "00000000:0C:00.0"),
        ({}, "uuid", "amd-gpu0"),
    ],
)
def test_figures_are_converted_to_the_units_of_the_model(
    entry: dict[str, Any], field: str, expected: Any
) -> None:
    assert getattr(only(**entry), field) == expected


def test_documents_about_one_gpu_are_merged() -> None:
    static = [{"gpu": 0, "asic": {"market_name": "MI210"}, "clock": {"sys": {}}}]
    metric = {"gpu_data": [{"gpu": 0, "clock": {"gfx_0": {"clk": value(800, "MHz")}}}]}
    (gpu,) = parse(json.dumps(metric), json.dumps(static))
    assert (gpu.name, gpu.sm_clock_mhz) == ("MI210", 800)


def test_processes_are_listed_where_they_were_requested() -> None:
    info = {
        "name": "python",
        "pid": 41,
        "memory_usage": {"vram_mem": value(4096, "B"), "gtt_mem": value(1, "B")},
    }
    gpu = only(process_list=[{"process_info": info}, {"process_info": {"pid": "N/A"}}])
    assert gpu.processes == (Process(pid=41, kind="compute", name="python", gpu_memory_bytes=4096),)


def test_no_processes_and_processes_not_requested_differ() -> None:
    nobody = [{"process_info": "No running processes detected"}]
    assert (only(process_list=nobody).processes, only().processes) == ((), None)


@pytest.mark.parametrize("text", ["", "amd-smi: not found", "[]", '{"card0": {}}', "[3]"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse(text)


# As AMD SMI 26 prints it for a board with two power caps; shortened.
MI355X_STATIC = json.dumps(
    {
        "gpu_data": [
            {
                "gpu": 0,
                "asic": {"market_name": "AMD Instinct MI355X", "asic_serial": "0x1A2B3C4D5E6F7081"},
                "bus": {"bdf": "0000:05:00.0", "max_pcie_width": 16},
                "vram": {"type": "HBM3E", "size": value(294896, "MB")},
                "limit": {
                    "ppt0": {
                        "max_power_limit": value(1400, "W"),
                        "min_power_limit": value(0, "W"),
                        "socket_power_limit": value(1000, "W"),
                    },
                    "ppt1": "N/A",
                    "slowdown_hotspot_temperature": value(100, "C"),
                },
            }
        ]
    }
)


def test_the_power_limit_in_force_is_that_of_the_socket_cap() -> None:
    (gpu,) = parse(MI355X_STATIC)
    assert (gpu.name, gpu.uuid) == ("AMD Instinct MI355X", "GPU-1a2b3c4d5e6f7081")
    assert (gpu.power_limit_watts, gpu.memory_total_bytes) == (1000.0, 294896 << 20)


def test_a_subcommand_that_failed_does_not_hide_the_others() -> None:
    (gpu,) = parse("AMDSMI_STATUS_NOT_SUPPORTED", MI355X_STATIC, "")
    assert (gpu.index, gpu.processes) == (0, None)


@pytest.mark.parametrize("path", capture_files("amd/amd-smi-json"), ids=lambda path: path.name)
def test_captures_are_parsed_as_printed(path: Path) -> None:
    text = path.read_text()
    if path.name.startswith("metric-usage"):
        (gpu,) = parse(text)
        assert (gpu.busy_percent, gpu.memory_busy_percent) == (42.0, 1.0)
    elif path.name.startswith("metric-apu"):
        with pytest.raises(ReadFailed, match="no whole JSON"):  # the capture is cut short
            parse(text)
        (gpu,) = parse(text.rstrip().rstrip(",") + "}}]")
        assert (gpu.index, gpu.busy_percent, gpu.power_watts) == (0, None, None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["N/A", "0x7", "0000:03:00.0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "gpu",
                    "gpu_data",
                    "usage",
                    "gfx_activity",
                    "value",
                    "unit",
                    "power",
                    "socket_power",
                    "fan",
                    "speed",
                    "max",
                    "mem_usage",
                    "used_vram",
                    "process_list",
                    "process_info",
                    "pid",
                    "memory_usage",
                    "vram_mem",
                    "clock",
                    "gfx_0",
                    "clk",
                    "pcie",
                    "width",
                    "asic",
                    "bdf",
                ]
            ),
            inner,
        )
    ),
    max_leaves=25,
)


SECTIONS = ["usage", "fan", "power", "mem_usage", "clock", "pcie", "process_list", "asic", "bdf"]


@given(st.dictionaries(st.sampled_from(SECTIONS), JSON), JSON)
def test_any_json_gives_figures_in_range_or_an_error(entry: dict[str, Any], other: Any) -> None:
    try:
        found = parse(json.dumps([{"gpu": 1, **entry}, other]))
    except CollectError:
        return
    for gpu in found:
        assert_in_range(gpu)


@given(st.text() | st.text(alphabet='gpu{}[]:,0123456789"\n\r\0 -.'))
def test_any_text_gives_gpus_or_an_error(text: str) -> None:
    with contextlib.suppress(CollectError):
        assert parse(text)
