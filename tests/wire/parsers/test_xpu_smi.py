"""`xpu-smi`'s JSON, CSV and tables."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.parsers.xpu_smi import parse
from tests.captures import capture_files

DISCOVERY = json.dumps(
    {
        "device_list": [
            {
                "device_id": 0,
                "device_name": "Intel(R) Graphics [0x020a]",
                "pci_bdf_address": "0000:4D:00.0",
                "uuid": "00000000-0000-0000-0000-020a00008086",
            }
        ]
    }
)


def test_a_device_is_known_by_its_address_because_its_uuid_is_its_models() -> None:
    (gpu,) = parse(DISCOVERY)
    assert (gpu.uuid, gpu.pci_bus_id) == ("intel-0000:4d:00.0", "00000000:4D:00.0")
    assert (gpu.name, gpu.busy_percent) == ("Intel(R) Graphics [0x020a]", None)


@pytest.mark.parametrize(
    "column, cell, field, expected",
    [
        ("GPU Utilization (%)", "0.00", "busy_percent", 0.0),
        ("Average % utilization of all GPU Engines", "7.5", "busy_percent", 7.5),
        ("GPU Utilization (%)", "N/A", "busy_percent", None),
        ("GPU Utilization (%)", "    ", "busy_percent", None),
        ("GPU Power (W)", "44.62", "power_watts", 44.62),
        ("GPU Frequency (MHz)", "1600.00", "sm_clock_mhz", 1600),
        ("GPU Core Temperature (Celsius Degree)", "35.50", "temperature_celsius", 35.5),
        ("GPU Memory Temperature (Celsius Degree)", "35.50", "temperature_celsius", None),
        ("GPU Memory Used (MiB)", "24", "memory_used_bytes", 24 << 20),
        ("GPU Memory Utilization (%)", "20.41", "memory_busy_percent", None),
        ("GPU Memory Bandwidth Utilization (%)", "3", "memory_busy_percent", 3.0),
    ],
)
def test_every_column_is_read_by_its_name(
    column: str, cell: str, field: str, expected: Any
) -> None:
    (gpu,) = parse(f"Timestamp, DeviceId, {column}\n06:14:46.000,    0, {cell}\n")
    assert getattr(gpu, field) == expected


def test_of_several_samples_the_last_counts() -> None:
    text = "Timestamp, DeviceId, GPU Power (W)\n1, 0, 10\n1, 1, 20\n2, 0, 11\n2, 1, N/A\n"
    assert [gpu.power_watts for gpu in parse(text)] == [11.0, None]


def test_outputs_about_one_device_are_joined() -> None:
    (gpu,) = parse(DISCOVERY, "Timestamp, DeviceId, GPU Power (W)\n1, 0, 10\n")
    assert (gpu.uuid, gpu.power_watts) == ("intel-0000:4d:00.0", 10.0)


def test_stats_as_json_are_read() -> None:
    level = [
        {"metrics_type": "XPUM_STATS_POWER", "value": 15.5},
        {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 24},
        {"metrics_type": "XPUM_STATS_GPU_UTILIZATION", "value": None},
    ]
    (gpu,) = parse(json.dumps({"device_id": 1, "device_level": level}))
    assert (gpu.index, gpu.power_watts, gpu.memory_used_bytes) == (1, 15.5, 24 << 20)
    assert gpu.busy_percent is None


def test_a_quoted_table_with_sizes_is_read() -> None:
    header = "Device ID,Device Name,Core Clock Rate,Memory Physical Size\n"
    (gpu,) = parse(header + '0,"Arc, A310","2450 MHz","4096.00 MiB"\n')
    assert (gpu.name, gpu.sm_clock_max_mhz) == ("Arc, A310", 2450)
    assert gpu.memory_total_bytes == 4 << 30


def test_a_name_that_goes_on_in_the_next_row_is_one_name() -> None:
    text = (
        "+-----+----+\n| Device ID | 2 |\n+-----+----+\n"
        "| Average % utilization of | 17 |\n| all GPU Engines | |\n| GPU Power (W) | 15 |\n"
        "| GPU Core Temperature (C) | |\n"
    )
    (gpu,) = parse(text)
    assert (gpu.index, gpu.busy_percent, gpu.power_watts) == (2, 17.0, 15.0)
    assert gpu.temperature_celsius is None


def test_processes_are_listed_without_the_one_that_looks() -> None:
    text = (
        "PID       Command             DeviceID       SHR            MEM\n"
        "12961     xpu-smi             0              0              1966\n"
        "41        python train.py     0              0              2048\n"
        "12961     xpu-smi             1              0              1966\n"
    )
    first, second = parse(text)
    assert first.processes == (
        Process(pid=41, kind="compute", name="python train.py", gpu_memory_bytes=2 << 20),
    )
    assert second.processes == ()
    assert parse(DISCOVERY)[0].processes is None


@pytest.mark.parametrize("text", ["", "xpu-smi: not found", "[]", "{}", "+---+\n| a | b |\n"])
def test_what_is_not_xpu_smis_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse(text)


EXPECTED: dict[str, dict[str, Any]] = {
    "discovery-detail-table.txt": {
        "uuid": "intel-0000:4d:00.0",
        "memory_total_bytes": 32768 << 20,
        "sm_clock_max_mhz": 1400,
        "pcie_generation_max": 4,
        "pcie_width_max": 16,
        "name": "Intel(R) Graphics [0x020a]",
    },
    "discovery-dump-arc-a310.csv": {"sm_clock_max_mhz": 2450, "memory_total_bytes": None},
    "discovery.json": {"pci_bus_id": "00000000:4D:00.0"},
    "dump-csv-blank-cells.csv": {"power_watts": 44.62, "busy_percent": None, "sm_clock_mhz": None},
    "dump-csv-doc.csv": {"power_watts": 14.61, "busy_percent": 0.0, "sm_clock_mhz": 0},
    "dump-csv-max1550-6gpu-na.csv": {
        "power_watts": 409.54,
        "busy_percent": None,
        "temperature_celsius": 40.5,
    },
    "ps.txt": {"processes": ()},
    "stats-table-flex.txt": {
        "busy_percent": 0.0,
        "power_watts": 15.0,
        "sm_clock_mhz": 2050,
        "ecc_uncorrected": 0,
        "memory_used_bytes": 24 << 20,
        "temperature_celsius": 41.0,
        "memory_busy_percent": None,
    },
}


@pytest.mark.parametrize("path", capture_files("intel/xpu-smi"), ids=lambda path: path.name)
def test_captures_read_as_they_say(path: Path) -> None:
    gpu: Gpu = parse(path.read_text())[0]
    expected = EXPECTED[path.name]
    assert {field: getattr(gpu, field) for field in expected} == expected


@given(
    st.sampled_from(
        [
            "",
            "Timestamp, DeviceId, GPU Power (W), GPU Frequency (MHz)\n1, 0, ",
            "Device ID,Core Clock Rate,Memory Physical Size\n0,",
            '{"device_id": 0, "x": ',
            "+---+\n| Device ID | 0 |\n| GPU Power (W) | ",
            "PID Command DeviceID SHR MEM\n",
        ]
    ),
    st.text() | st.text(alphabet='0123456789,"\n |{}[]:.-eE') | st.integers().map(str),
)
def test_any_text_gives_plausible_gpus_or_a_refusal(start: str, text: str) -> None:
    try:
        found = parse(start + text)
    except CollectError:
        return
    for gpu in found:
        for field, (low, high) in RANGES.items():
            value = getattr(gpu, field, None)
            assert value is None or low <= value <= high


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "device_list",
                        "device_id",
                        "device_level",
                        "value",
                        "metrics_type",
                        "pci_bdf_address",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_gives_gpus_or_a_refusal(document: Any) -> None:
    with contextlib.suppress(CollectError):
        assert parse(json.dumps(document))
