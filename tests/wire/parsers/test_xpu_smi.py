"""The CSV and the process table of `xpu-smi`."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.parsers.xpu_smi import parse
from tests.captures import capture_files
from tests.figure_ranges import assert_in_range

DISCOVERY = (
    "Device ID,Device Name,Core Clock Rate,PCI BDF Address,Memory Physical Size\n"
    '0,"Intel(R) Graphics [0x020a]","1400 MHz","0000:4D:00.0","32768.00 MiB"\n'
)


def test_a_device_is_identified_by_its_pci_address() -> None:
    (gpu,) = parse(DISCOVERY)
    assert (gpu.uuid, gpu.pci_bus_id) == ("intel-0000:4d:00.0", "00000000:4D:00.0")
    assert (gpu.name, gpu.busy_percent) == ("Intel(R) Graphics [0x020a]", None)
    assert (gpu.sm_clock_max_mhz, gpu.memory_total_bytes) == (1400, 32 << 30)


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
def test_columns_are_found_by_name(column: str, cell: str, field: str, expected: Any) -> None:
    (gpu,) = parse(f"Timestamp, DeviceId, {column}\n06:14:46.000,    0, {cell}\n")
    assert getattr(gpu, field) == expected


def test_the_last_of_several_samples_counts() -> None:
    text = "Timestamp, DeviceId, GPU Power (W)\n1, 0, 10\n1, 1, 20\n2, 0, 11\n2, 1, N/A\n"
    assert [gpu.power_watts for gpu in parse(text)] == [11.0, None]


def test_an_output_that_failed_does_not_hide_the_others() -> None:
    warning = "zeInit: loader warning\n"
    (gpu,) = parse(warning + DISCOVERY, "Error: Level Zero initialization failed", "")
    assert (gpu.uuid, gpu.processes) == ("intel-0000:4d:00.0", None)


def test_outputs_about_one_device_are_merged() -> None:
    (gpu,) = parse(DISCOVERY, "Timestamp, DeviceId, GPU Power (W)\n1, 0, 10\n")
    assert (gpu.uuid, gpu.power_watts) == ("intel-0000:4d:00.0", 10.0)


def test_quoted_cells_with_units_are_parsed() -> None:
    header = "Device ID,Device Name,Core Clock Rate,Memory Physical Size\n"
    (gpu,) = parse(header + '0,"Arc, A310","2450 MHz","4096.00 MiB"\n')
    assert (gpu.name, gpu.sm_clock_max_mhz) == ("Arc, A310", 2450)
    assert gpu.memory_total_bytes == 4 << 30


def test_processes_are_listed_without_xpu_smi_itself() -> None:
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
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse(text)


EXPECTED: dict[str, dict[str, Any]] = {
    "discovery-dump-arc-a310.csv": {"sm_clock_max_mhz": 2450, "memory_total_bytes": None},
    "dump-csv-blank-cells.csv": {"power_watts": 44.62, "busy_percent": None, "sm_clock_mhz": None},
    "dump-csv-doc.csv": {"power_watts": 14.61, "busy_percent": 0.0, "sm_clock_mhz": 0},
    "dump-csv-max1550-6gpu-na.csv": {
        "power_watts": 409.54,
        "busy_percent": None,
        "temperature_celsius": 40.5,
    },
    "ps.txt": {"processes": ()},
}


@pytest.mark.parametrize("path", capture_files("intel/xpu-smi"), ids=lambda path: path.name)
def test_captures_are_parsed_as_printed(path: Path) -> None:
    expected = EXPECTED.get(path.name)
    if expected is None:  # the forms that fleet-smi does not ask for
        with pytest.raises(ReadFailed):
            parse(path.read_text())
        return
    gpu: Gpu = parse(path.read_text())[0]
    assert {field: getattr(gpu, field) for field in expected} == expected


@given(
    st.sampled_from(
        [
            "",
            "Timestamp, DeviceId, GPU Power (W), GPU Frequency (MHz)\n1, 0, ",
            "Device ID,Core Clock Rate,Memory Physical Size\n0,",
            "PID Command DeviceID SHR MEM\n",
        ]
    ),
    st.text() | st.text(alphabet='0123456789,"\n |{}[]:.-eE') | st.integers().map(str),
)
def test_any_text_gives_figures_in_range_or_an_error(start: str, text: str) -> None:
    try:
        found = parse(start + text)
    except CollectError:
        return
    for gpu in found:
        assert_in_range(gpu)
