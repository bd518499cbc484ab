"""The JSON of `rocm-smi`, of every release."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.parsers.rocm_smi import parse
from tests.captures import capture_files
from tests.figure_ranges import assert_in_range


def only(card: dict[str, str], **system: str) -> Gpu:
    (gpu,) = parse(json.dumps({"card0": card, "system": system}))
    return gpu


def test_gpus_are_numbered_as_their_cards() -> None:
    text = json.dumps({"card2": {}, "card1": {}, "system": {}, "cardinal": {}})
    assert [(gpu.index, gpu.uuid) for gpu in parse(text)] == [(1, "amd-card1"), (2, "amd-card2")]


@pytest.mark.parametrize(
    "card, uuid",
    [
        ({"Unique ID": "0x2150e7d042a1124"}, "GPU-02150e7d042a1124"),
        ({"Unique ID": "249220E172FC1A88"}, "GPU-249220e172fc1a88"),
        ({"Unique ID": "N/A", "PCI Bus": "0000:1E:00.0"}, "amd-0000:1e:00.0"),
        ({"Unique ID": "-0x7fe3"}, "amd-card0"),
        ({"Unique ID": "0x0"}, "amd-card0"),
    ],
)
def test_a_card_has_the_same_id_as_from_the_kernel_driver(card: dict[str, str], uuid: str) -> None:
    assert only(card).uuid == uuid


@pytest.mark.parametrize(
    "key, value, field, expected",
    [
        ("GPU use (%)", "0", "busy_percent", 0.0),
        ("DCU use (%)", "7", "busy_percent", 7.0),
        ("GPU use (%)", "N/A", "busy_percent", None),
        ("GPU memory use (%)", "3", "memory_busy_percent", 3.0),
        ("GPU Memory Read/Write Activity (%)", "4", "memory_busy_percent", 4.0),
        ("GPU Memory Allocated (VRAM%)", "12", "memory_busy_percent", None),
        ("vram Total Memory (B)", "17163091968", "memory_total_bytes", 17163091968),
        ("VRAM Total Memory (B)", "17163091968", "memory_total_bytes", 17163091968),
        ("vram Total Used Memory (MiB)", "2", "memory_used_bytes", 2 << 20),
        ("Average Graphics Package Power (W)", "N/A (Secondary die)", "power_watts", None),
        ("Current Socket Graphics Package Power (W)", "9.1", "power_watts", 9.1),
        ("Temperature (Sensor junction) (C)", "35.0", "temperature_celsius", 35.0),
        ("Temperature (Sensor memory) (C)", "35.0", "temperature_celsius", None),
        ("sclk clock speed:", "(500Mhz)", "sm_clock_mhz", 500),
        ("sclk clock speed", "808Mhz", "sm_clock_mhz", 808),
        ("sclk clock level", "1 (500Mhz)", "sm_clock_mhz", 500),
        ("mclk clock level:", "1", "memory_clock_mhz", None),
        ("Valid sclk range", "500Mhz - 1700Mhz", "sm_clock_max_mhz", 1700),
        ("pcie clock level", "1 (16.0GT/s x16)", "pcie_generation", 4),
        ("pcie clock level", "1 (16.0GT/s x16)", "pcie_width", 16),
        ("Fan speed (%)", "13", "fan_percent", 13.0),
        ("Fan Speed (%)", "Not supported", "fan_percent", None),
    ],
)
def test_keys_of_every_release_are_parsed(key: str, value: str, field: str, expected: Any) -> None:
    assert getattr(only({key: value}), field) == expected


@pytest.mark.parametrize(
    "card, name",
    [
        ({"Card series": "Vega 20"}, "Vega 20"),
        ({"Card Series": "0x1002", "GPU ID": "0x73df"}, "AMD Radeon RX 6700/6700 XT/6750 XT"),
        ({"Device ID": "0x1"}, "AMD GPU [1002:0001]"),
        ({}, None),
    ],
)
def test_a_numeric_name_is_replaced_by_the_name_of_the_pci_id(
    card: dict[str, str], name: str | None
) -> None:
    assert only(card).name == name


def test_an_impossible_value_is_none_with_a_reason() -> None:
    gpu = only({"GPU use (%)": "3485543173"})
    assert (gpu.busy_percent, gpu.unread["busy_percent"]) == (None, "out of range: 3.48554e+09")


def test_memory_of_an_integrated_gpu_includes_gtt() -> None:
    gpu = only(
        {
            "VRAM Total Memory (B)": "536870912",
            "VRAM Total Used Memory (B)": "100",
            "GTT Total Memory (B)": "32000000000",
            "GTT Total Used Memory (B)": "11",
        }
    )
    assert gpu.memory_shared
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (111, 32536870912)


def test_memory_of_a_card_excludes_gtt() -> None:
    gpu = only({"VRAM Total Memory (B)": "8589934592", "GTT Total Memory (B)": "32000000000"})
    assert (gpu.memory_shared, gpu.memory_total_bytes) == (False, 8589934592)


def test_warnings_before_the_json_are_skipped() -> None:
    text = "\nWARNING: AMD GPU device(s) is/are in a low-power state.\n\n" + '{"card0": {}}'
    assert len(parse(text)) == 1


def test_processes_are_assigned_to_the_only_card() -> None:
    gpu = only({}, PID41="python, train, 1, 1048576, 0, 52")
    assert gpu.processes == (
        Process(pid=41, kind="compute", name="python, train", gpu_memory_bytes=1048576),
    )


def test_processes_are_unknown_where_they_could_be_on_several_cards() -> None:
    text = json.dumps({"card0": {}, "card1": {}, "system": {"PID41": "python, 1, 4096, 0, 0"}})
    assert [gpu.processes for gpu in parse(text)] == [None, None]
    assert "which GPU" in parse(text)[0].unread["processes"]


def test_no_processes_and_processes_not_requested_differ() -> None:
    requested = {"PIDs for KFD processes": ""}
    assert only({}, **requested).processes == ()
    assert only({}, PID41="idle, 0, 0, 0, 0").processes == ()
    assert only({}).processes is None


HUNG = "ERROR: 15 GPU[0]:Data (usually from reading a file) was not of the type expected\t\n"


def test_a_hung_gpu_is_recognised_by_the_errors_between_the_output() -> None:
    with pytest.raises(ReadFailed, match="cannot read GPU 0: Data"):
        parse(f"== ROCm System Management Interface ==\n{HUNG}GPU  Temp\n0    N/A\n")


def test_a_hung_gpu_does_not_hide_the_others() -> None:
    hung, well = parse(HUNG + '{"card0": {}, "card1": {"GPU use (%)": "5"}}')
    assert hung.fault is not None
    assert (hung.fault.kind, well.fault, well.busy_percent) == ("unreadable", None, 5.0)


@pytest.mark.parametrize("text", ["", "rocm-smi: not found", "[]", '{"gpus": []}', '{"card0": 3}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse(text)


NUMBERS = {
    "busy_percent": ("GPU use (%)", "DCU use (%)"),
    "temperature_celsius": ("Temperature (Sensor edge) (C)",),
    "power_watts": ("Average Graphics Package Power (W)",),
    "power_limit_watts": ("Max Graphics Package Power (W)",),
    "memory_total_bytes": ("VRAM Total Memory (B)", "vram Total Memory (B)"),
    "memory_used_bytes": ("VRAM Total Used Memory (B)", "vram Total Used Memory (B)"),
    "sm_clock_mhz": ("sclk clock speed:", "sclk clock speed"),
    "memory_clock_mhz": ("mclk clock speed:", "mclk clock speed"),
}


def plain(value: str) -> float | None:
    value = value.strip("()").removesuffix("Mhz")
    return None if value.startswith("N/A") else float(value)


@pytest.mark.parametrize("path", capture_files("amd/rocm-smi-json"), ids=lambda path: path.name)
def test_captures_are_parsed_as_printed(path: Path) -> None:
    document = json.loads(path.read_text())
    cards = {int(name[4:]): card for name, card in document.items() if name.startswith("card")}
    found = parse(path.read_text())
    assert [gpu.index for gpu in found] == sorted(cards)
    assert len({gpu.uuid for gpu in found}) == len(cards)
    for gpu in found:
        card = cards[gpu.index]
        assert gpu.fault is None
        for field, keys in NUMBERS.items():
            written = next((card[key] for key in keys if key in card), "N/A")
            if "memory" in field and "vram Total Memory (MiB)" in card:
                continue
            assert getattr(gpu, field) == plain(written), field


@pytest.mark.parametrize("path", capture_files("amd/errors"), ids=lambda path: path.name)
def test_the_captured_hung_gpu_is_recognised(path: Path) -> None:
    with pytest.raises(ReadFailed, match="cannot read GPU 0"):
        parse(path.read_text())


@pytest.mark.parametrize("path", capture_files("amd/text"), ids=lambda path: path.name)
def test_captured_text_tables_are_refused(path: Path) -> None:
    with pytest.raises(ReadFailed, match="no whole JSON"):
        parse(path.read_text())


KEYS = st.sampled_from(
    [key for keys in NUMBERS.values() for key in keys]
    + [
        "Unique ID",
        "PCI Bus",
        "Card Series",
        "GPU ID",
        "pcie clock level",
        "Valid sclk range",
        "Fan Speed (%)",
        "GTT Total Memory (B)",
        "sclk clock level",
        "",
    ]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.floats().map(str),
    st.none(),
    st.integers(),
    st.sampled_from(["N/A", "-1", "(9999999Mhz)", "1e999"]),
)


@given(
    st.dictionaries(
        st.sampled_from(["card0", "card1", "system", "x"]),
        st.dictionaries(KEYS | st.just("PID7"), VALUES) | VALUES,
    )
)
def test_any_json_gives_figures_in_range_or_an_error(document: dict[str, Any]) -> None:
    try:
        found = parse(json.dumps(document))
    except CollectError:
        return
    for gpu in found:
        assert_in_range(gpu)


@given(st.text() | st.text(alphabet='{}[]":,0123456789card -\n'))
def test_any_text_gives_gpus_or_an_error(text: str) -> None:
    with contextlib.suppress(CollectError):
        assert parse(text)
