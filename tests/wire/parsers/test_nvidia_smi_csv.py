"""The CSV of `--query-gpu`, the list of `-L`, and any text in place of them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, NotPresent, ReadFailed
from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.parsers.nvidia_smi_csv import (
    APP_FIELDS,
    FIELDS,
    ListedGpu,
    ListedInstance,
    drop_invalid_field,
    parse_compute_apps,
    parse_list,
    parse_query_gpu,
)
from tests.captures import capture_files, capture_text
from tests.wire.parsers.nvidia_check import CHECKS

MIB = 1024 * 1024
UUID = "GPU-11111111-2222-3333-4444-555555555555"
APPS_HEADER = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"


def query(**cells: str) -> str:
    """An answer to `FIELDS` with units and a header; what is not given is "[N/A]"."""
    names = {name.replace("__", "."): cell for name, cell in cells.items()}
    row = ", ".join(names.get(field, "[N/A]") for field in FIELDS)
    return ", ".join(FIELDS) + "\n" + row + "\n"


def read(**cells: str) -> Gpu:
    (gpu,) = parse_query_gpu(query(**{"uuid": UUID} | cells)).gpus
    return gpu


def test_a_header_is_understood_without_its_units() -> None:
    (gpu,) = parse_query_gpu(
        "uuid, memory.used [MiB], utilization.gpu [%], power.draw [W], clocks.current.sm [MHz]\n"
        f"{UUID}, 754 MiB, 100 %, 217.24 W, 1949 MHz\n"
    ).gpus
    assert gpu == Gpu(
        uuid=UUID,
        index=0,
        vendor="nvidia",
        memory_used_bytes=754 * MIB,
        busy_percent=100,
        power_watts=217.24,
        sm_clock_mhz=1949,
    )


def test_without_header_and_units_the_fields_asked_for_tell_the_columns() -> None:
    asked = ["index", "gpu_uuid", "clocks.sm", "clocks.mem", "memory.used", "gpu_name"]
    (gpu,) = parse_query_gpu(f"3, {UUID}, 1500, 5000, 12, NVIDIA A, B\n", asked).gpus
    assert gpu == Gpu(
        uuid=UUID,
        index=3,
        vendor="nvidia",
        name="NVIDIA A, B",
        sm_clock_mhz=1500,
        memory_clock_mhz=5000,
        memory_used_bytes=12 * MIB,
    )


def test_a_header_does_no_harm_where_the_fields_are_given_too() -> None:
    text = f"name, uuid, memory.used [MiB]\n\nT4, {UUID}, 5\n"
    asked = ["gpu_name", "gpu_uuid", "memory.used"]
    assert parse_query_gpu(text, asked) == parse_query_gpu(text)


def test_what_fleet_smi_asks_for_fills_the_model() -> None:
    gpu = read(
        index="2",
        pci__bus_id="0000:0a:00.0",
        memory__total="100 MiB",
        memory__used="0 MiB",
        utilization__gpu="0 %",
        utilization__memory="7 %",
        temperature__gpu="40",
        fan__speed="0 %",
        power__draw="10.50 W",
        power__limit="300.00 W",
        enforced__power__limit="250.00 W",
        pstate="P8",
        clocks_throttle_reasons__active="0x0000000000000104",
        ecc__errors__corrected__volatile__total="4",
        ecc__errors__uncorrected__volatile__total="0",
        pcie__link__gen__current="1",
        pcie__link__gen__max="4",
        pcie__link__width__current="8",
        pcie__link__width__max="16",
        persistence_mode="Disabled",
        compute_mode="Exclusive_Process",
        mig__mode__current="Enabled",
        gpu_recovery_action="None",
        name="NVIDIA T4",
    )
    assert gpu == Gpu(
        uuid=UUID,
        index=2,
        vendor="nvidia",
        name="NVIDIA T4",
        pci_bus_id="00000000:0A:00.0",
        memory_total_bytes=100 * MIB,
        memory_used_bytes=0,
        busy_percent=0,
        memory_busy_percent=7,
        temperature_celsius=40,
        fan_percent=0,
        power_watts=10.5,
        power_limit_watts=250,
        performance_state="P8",
        throttle_reasons=("sw_power_cap", "display_clocks_setting"),
        ecc_corrected=4,
        ecc_uncorrected=0,
        pcie_generation=1,
        pcie_generation_max=4,
        pcie_width=8,
        pcie_width_max=16,
        persistence=False,
        compute_mode="exclusive_process",
        mig_mode=True,
    )


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "N/A", "", "[Function Not Found]"])
def test_an_absent_cell_is_none_and_never_zero(word: str) -> None:
    gpu = read(utilization__gpu=word)
    assert gpu.busy_percent is None
    assert gpu.unread == {}


@pytest.mark.parametrize("word", ["Unknown Error", "Insufficient Permissions"])
def test_a_failed_cell_keeps_the_drivers_word(word: str) -> None:
    gpu = read(utilization__gpu=f"[{word}]", clocks_throttle_reasons__active=f"[{word}]")
    assert gpu.unread == {"busy_percent": word, "throttle_reasons": word}


def test_a_lost_card_is_lost_in_csv_too() -> None:
    gpu = read(memory__total="[GPU is lost]", name="NVIDIA GB10")
    assert gpu.fault is not None
    assert gpu.fault.kind == "lost"
    assert not gpu.memory_shared


def test_a_card_that_shares_the_hosts_memory_is_known_by_its_name() -> None:
    assert read(name="NVIDIA GB10").memory_shared
    assert not read(name="NVIDIA A100").memory_shared


def test_throttle_reasons_are_read_one_by_one_where_the_mask_was_not_asked_for() -> None:
    text = (
        "uuid, clocks_event_reasons.gpu_idle, clocks_event_reasons.hw_slowdown\n"
        f"{UUID}, Not Active, Active\n"
    )
    assert parse_query_gpu(text).gpus[0].throttle_reasons == ("hw_slowdown",)


def test_a_line_of_the_wrong_length_does_not_hide_the_other_devices() -> None:
    text = f"uuid, memory.used [MiB]\nGPU-a, 5 MiB\n{UUID}, 5\nGPU-c, 7 MiB\n"
    broken = text.replace(f"{UUID}, 5", f"{UUID}")
    first, second, third = parse_query_gpu(broken).gpus
    assert (first.memory_used_bytes, third.memory_used_bytes) == (5 * MIB, 7 * MIB)
    assert (second.uuid, second.memory_used_bytes) == (UUID, None)
    assert second.fault is not None
    assert second.fault.kind == "unreadable"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "uuid, memory.used [MiB]\n",
        "uuid, memory.used [MiB]\nnonsense\n",
        "timestamp\n2019/04/27 21:05:22.654\ndriver_version\n418.56\n",
        APPS_HEADER + f"{UUID}, 1, a, 1 MiB\n",
        "timestamp, gpu_uuid, retired_pages.address, retired_pages.cause\n",
        "gpu_uuid, pid, gpu_utilization [%], max_memory_usage [MiB], time [ms]\n",
        "5, 6, 7\n",
    ],
)
def test_what_query_gpu_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse_query_gpu(text)


@pytest.mark.parametrize(
    "text",
    [
        "uuid" + " " * 2_000_000 + "x",
        "\n" * 2_000_000,
        "uuid\n" + "GPU-a\n" * 100_000,
        "uuid, " * 400_000,
    ],
    ids=["blanks", "lines", "rows", "columns"],
)
def test_endless_text_is_refused_at_once(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse_query_gpu(text)


def test_the_count_of_columns_must_be_the_one_asked_for() -> None:
    with pytest.raises(ReadFailed, match="2 fields were asked for, and 3 came back"):
        parse_query_gpu("uuid, name, memory.used [MiB]\nGPU-a, b, 3\n", ["uuid", "name"])


def test_a_failure_in_place_of_csv_is_raised_by_name() -> None:
    with pytest.raises(NotPresent):
        parse_query_gpu("No devices were found\n", FIELDS)


def test_a_field_that_the_driver_does_not_know_is_left_out_next_time() -> None:
    fields = ("uuid", "addressing_mode", "name")
    refusal = 'Field "addressing_mode" is not a valid field to query.\n\n'
    assert drop_invalid_field(fields, refusal) == ("uuid", "name")
    assert drop_invalid_field(("uuid",), refusal) is None
    assert drop_invalid_field(fields, "No devices were found") is None


def test_a_list_names_devices_and_their_mig_instances() -> None:
    text = (
        f"GPU 0: NVIDIA H100 (PCIe) (UUID: {UUID})\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 1c.3g.40gb  Device  1: (UUID: MIG-2)\n"
        "Unable to determine the device handle for gpu 0000:0B:00.0: GPU is lost.\n"
        "GPU 2: Tesla T4 (UUID: GPU-t)\n"
    )
    assert parse_list(text) == (
        ListedGpu(
            index=0,
            uuid=UUID,
            name="NVIDIA H100 (PCIe)",
            instances=(
                ListedInstance(index=0, uuid="MIG-1", profile="3g.40gb"),
                ListedInstance(index=1, uuid="MIG-2", profile="1c.3g.40gb"),
            ),
        ),
        ListedGpu(index=2, uuid="GPU-t", name="Tesla T4"),
    )


@pytest.mark.parametrize("text, kind", [("", ReadFailed), ("No devices were found", NotPresent)])
def test_what_is_no_list_is_refused(text: str, kind: type[CollectError]) -> None:
    with pytest.raises(kind):
        parse_list(text)


@given(st.text(), st.sampled_from([None, FIELDS, APP_FIELDS, ("uuid",), ("gpu_uuid", "pid")]))
def test_any_text_is_read_or_refused(text: str, fields: tuple[str, ...] | None) -> None:
    for parse in (parse_query_gpu, parse_compute_apps):
        with contextlib.suppress(CollectError):
            parse(text, fields)
    with contextlib.suppress(CollectError):
        parse_list(text)


CELLS = [
    "uuid",
    "pid",
    "gpu_uuid",
    "memory.used [MiB]",
    UUID,
    "[N/A]",
    "5 MiB",
    "0x1F",
    "\x00",
    "٣",
]


@given(st.lists(st.lists(st.sampled_from(CELLS), max_size=4), max_size=4))
def test_a_table_of_odd_cells_is_read_or_refused(rows: list[list[str]]) -> None:
    text = "\n".join(", ".join(row) for row in rows)
    with contextlib.suppress(CollectError):
        assert all(gpu.uuid for gpu in parse_query_gpu(text).gpus)
    with contextlib.suppress(CollectError):
        assert all(isinstance(key, str) for key in parse_compute_apps(text).processes)


def printed(value: float | None, unit: str) -> str:
    return "[N/A]" if value is None else f"{value} {unit}".strip()


@given(
    st.builds(
        Gpu,
        uuid=st.uuids().map(lambda uuid: f"GPU-{uuid}"),
        index=st.integers(0, 9999),
        vendor=st.just("nvidia"),
        name=st.none() | st.from_regex(r"NVIDIA [A-Z0-9]{1,9}(, [A-Z]{1,5})?", fullmatch=True),
        memory_used_bytes=st.none() | st.integers(0, 200_000).map(lambda n: n * MIB),
        busy_percent=st.none() | st.integers(0, 100).map(float),
        temperature_celsius=st.none() | st.integers(0, 200).map(float),
        power_watts=st.none() | st.integers(0, 200_000).map(lambda n: n / 100),
        sm_clock_mhz=st.none() | st.integers(0, 5000),
        throttle_reasons=st.sampled_from([None, (), ("gpu_idle",), ("hw_slowdown", "sync_boost")]),
        persistence=st.none() | st.booleans(),
    ),
    st.booleans(),
)
def test_a_gpu_printed_as_csv_reads_back(gpu: Gpu, units: bool) -> None:
    bits: dict[tuple[str, ...] | None, str]
    bits = {None: "[N/A]", (): "0x0", ("gpu_idle",): "0x1", ("hw_slowdown", "sync_boost"): "0x18"}
    used = gpu.memory_used_bytes
    cells = {
        "index": str(gpu.index),
        "uuid": gpu.uuid,
        "name": gpu.name or "[N/A]",
        "memory.used": printed(None if used is None else used // MIB, "MiB" if units else ""),
        "utilization.gpu": printed(gpu.busy_percent, "%" if units else ""),
        "temperature.gpu": printed(gpu.temperature_celsius, ""),
        "power.draw": printed(gpu.power_watts, "W" if units else ""),
        "clocks.current.sm": printed(gpu.sm_clock_mhz, "MHz" if units else ""),
        "clocks_throttle_reasons.active": bits[gpu.throttle_reasons],
        "persistence_mode": {None: "[N/A]", True: "Enabled", False: "Disabled"}[gpu.persistence],
    }
    text = ", ".join(cells) + "\n" + ", ".join(cells.values()) + "\n"
    assert parse_query_gpu(text).gpus == (gpu,)
    assert parse_query_gpu(text.partition("\n")[2], list(cells)).gpus == (gpu,)


@pytest.mark.parametrize("folder", ["nvidia/csv", "nvidia/topology", "nvidia/capture"])
def test_a_second_dumb_reading_of_every_capture_agrees(folder: str) -> None:
    tallies = [CHECKS[folder](path) for path in capture_files(folder)]
    assert [line for tally in tallies for line in tally.wrong] == []
    assert all(tally.read or tally.named for tally in tallies)


def test_captures_of_other_queries_are_refused_by_their_name() -> None:
    for path in capture_files("nvidia/csv"):
        for other in ("accounted-apps", "retired-pages"):
            if other in path.name:
                with pytest.raises(ReadFailed, match=other):
                    parse_query_gpu(capture_text(path))
                with pytest.raises(ReadFailed, match=other):
                    parse_compute_apps(capture_text(path))


@pytest.mark.parametrize("folder", ["xml", "q-text", "table", "pmon-dmon", "help", "errors"])
def test_what_other_commands_print_is_refused_and_never_a_gpu(folder: str) -> None:
    for path in capture_files(f"nvidia/{folder}"):
        with pytest.raises(CollectError):
            parse_query_gpu(capture_text(path))
        with pytest.raises(CollectError):
            parse_compute_apps(capture_text(path))
