"""The XML of `nvidia-smi -q -x`: every field of one GPU, of old and new drivers."""

import pytest

from fleet_smi.errors import ReadFailed
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.parsers.nvidia_smi import parse_xml
from tests.captures import capture_files, capture_text
from tests.wire.parsers.nvidia_check import CHECKS, check_xml
from tests.wire.parsers.nvidia_samples import (
    GPU_XML,
    LISTING,
    MIB,
    MIG_XML,
    UUID,
    document,
    read_gpu,
)


def test_every_field_of_a_new_driver_is_parsed() -> None:
    assert read_gpu(GPU_XML) == Gpu(
        uuid=UUID,
        index=0,
        vendor="nvidia",
        name="NVIDIA RTX 9000",
        pci_bus_id="00000001:1A:00.0",
        memory_used_bytes=1000 * MIB,
        memory_total_bytes=10240 * MIB,
        busy_percent=37,
        memory_busy_percent=0,
        encoder_percent=1,
        decoder_percent=None,
        temperature_celsius=61,
        memory_temperature_celsius=70,
        fan_percent=30,
        power_watts=120.5,
        power_limit_watts=300,
        sm_clock_mhz=1500,
        sm_clock_max_mhz=2100,
        memory_clock_mhz=9000,
        memory_clock_max_mhz=10000,
        performance_state="P2",
        throttle_reasons=("sw_power_cap", "sw_thermal_slowdown"),
        ecc_corrected=11,
        ecc_uncorrected=25,
        ecc_contained=True,
        pcie_generation=4,
        pcie_generation_max=5,
        pcie_width=8,
        pcie_width_max=16,
        pcie_rx_bytes_per_second=1_200_000,
        pcie_tx_bytes_per_second=50_000,
        persistence=True,
        compute_mode="exclusive_process",
        mig_mode=False,
        processes=(
            Process(
                pid=4711,
                kind="compute",
                gpu_memory_bytes=800 * MIB,
                name="python3",
                command="/opt/bin/python3 -m train, --lr=1",
            ),
            Process(pid=12, kind="compute+graphics", hidden=True),
        ),
    )


def test_the_versions_of_driver_and_cuda_are_parsed() -> None:
    reading = parse_xml(document(GPU_XML))
    assert (reading.driver_version, reading.cuda_version) == ("590.48.01", "13.1")


def test_a_version_that_was_not_found_is_unknown() -> None:
    text = document(GPU_XML).replace(">13.1<", ">Not Found<").replace(">590.48.01<", ">N/A<")
    reading = parse_xml(text)
    assert (reading.driver_version, reading.cuda_version) == (None, None)


def test_the_oldest_layout_is_parsed() -> None:
    gpu = read_gpu(
        "<product_name>Tesla K20</product_name><pci><pci_bus_id>0000:04:00.0</pci_bus_id></pci>"
        "<clocks_throttle_reasons>N/A</clocks_throttle_reasons>"
        "<ecc_errors><volatile><single_bit><device_memory>3</device_memory><total>5</total>"
        "</single_bit><double_bit><total>6</total></double_bit></volatile></ecc_errors>"
        "<power_readings><power_draw>24.05 W</power_draw><power_limit>200.00 W</power_limit>"
        "<enforced_power_limit>190.00 W</enforced_power_limit></power_readings>"
        "<compute_processes><process_info><pid>7</pid><process_name>a.out</process_name>"
        "<used_memory>9 MiB</used_memory></process_info></compute_processes>"
    )
    assert gpu.pci_bus_id == "00000000:04:00.0"
    assert (gpu.ecc_corrected, gpu.ecc_uncorrected) == (5, 6)
    assert (gpu.power_watts, gpu.power_limit_watts) == (24.05, 190)
    assert gpu.throttle_reasons is None
    assert gpu.processes == (
        Process(pid=7, kind="compute", name="a.out", gpu_memory_bytes=9 * MIB),
    )


@pytest.mark.parametrize("word", ["N/A", "", "None", "Not Supported", "[N/A]", "Not Found"])
def test_a_value_that_the_gpu_does_not_have_is_none_without_a_reason(word: str) -> None:
    gpu = read_gpu(f"<utilization><gpu_util>{word}</gpu_util></utilization>")
    assert gpu.busy_percent is None
    assert gpu.unread == {}


@pytest.mark.parametrize("word", ["Unknown Error", "Insufficient Permissions", "ERR!"])
def test_a_failed_reading_is_none_with_the_message_of_the_driver(word: str) -> None:
    gpu = read_gpu(f"<utilization><gpu_util>{word}</gpu_util></utilization>")
    assert gpu.busy_percent is None
    assert gpu.unread == {"busy_percent": word}


@pytest.mark.parametrize(
    "path, field, written, reason",
    [
        ("utilization/gpu_util", "busy_percent", "4294967295 %", "out of range: 4294967295"),
        ("utilization/gpu_util", "busy_percent", "-1 %", "out of range: -1"),
        ("utilization/gpu_util", "busy_percent", "0x1F", "0x1F"),
        ("temperature/gpu_temp", "temperature_celsius", "511 C", "out of range: 511"),
        ("temperature/gpu_temp", "temperature_celsius", "90 F", "90 F"),
        ("fb_memory_usage/used", "memory_used_bytes", "-5 MiB", "out of range: -5242880"),
        ("power_readings/power_draw", "power_watts", "99999.00 W", "out of range: 99999"),
        ("fb_memory_usage/total", "memory_total_bytes", "9" * 30 + " MiB", "9" * 30 + " MiB"),
    ],
)
def test_an_impossible_value_is_none_with_a_reason(
    path: str, field: str, written: str, reason: str
) -> None:
    outer, inner = path.split("/")
    gpu = read_gpu(f"<{outer}><{inner}>{written}</{inner}></{outer}>")
    assert getattr(gpu, field) is None
    assert gpu.unread[field] == reason


@pytest.mark.parametrize("busy, expected", [("0 %", -1), ("50 %", None)])
def test_minus_one_degree_is_a_sentinel_only_under_load(busy: str, expected: int | None) -> None:
    gpu = read_gpu(
        f"<utilization><gpu_util>{busy}</gpu_util></utilization>"
        "<temperature><gpu_temp>-1 C</gpu_temp></temperature>"
    )
    assert gpu.temperature_celsius == expected


@pytest.mark.parametrize(
    "written, expected",
    [
        ("<processes>N/A</processes>", None),
        ("<processes>\n</processes>", ()),
        ("", None),
        ("<processes>Insufficient Permissions</processes>", None),
        ("<processes><of_another_layout><pid>1</pid></of_another_layout></processes>", None),
    ],
)
def test_a_refused_process_list_is_not_an_empty_one(
    written: str, expected: tuple[Process, ...] | None
) -> None:
    assert read_gpu(written).processes == expected


def test_a_process_without_a_pid_is_counted_in_unread() -> None:
    row = "<process_info><pid>{}</pid><used_memory>1 MiB</used_memory></process_info>"
    rows = row.format(5) + row.format("[Insufficient Permissions]")
    some = read_gpu(f"<processes>{rows}</processes>")
    none = read_gpu(f"<processes>{row.format('[Insufficient Permissions]')}</processes>")
    assert [process.pid for process in some.processes or ()] == [5]
    assert some.unread["processes"] == "1 of 2 have no pid: Insufficient Permissions"
    assert none.processes is None


def test_a_lost_gpu_has_a_fault_and_does_not_share_the_memory_of_the_host() -> None:
    gpu = read_gpu(
        "<product_name>NVIDIA GB10</product_name><addressing_mode>ATS</addressing_mode>"
        "<fb_memory_usage><total>GPU is lost</total></fb_memory_usage><processes></processes>"
    )
    assert gpu.fault is not None
    assert (gpu.fault.kind, gpu.fault.detail) == ("lost", "GPU is lost")
    assert gpu.fault.remedy
    assert gpu.memory_shared is False
    assert gpu.processes is None
    assert gpu.unread["memory_total_bytes"] == "GPU is lost"


def test_a_lost_gpu_without_memory_figures_does_not_share_the_memory_of_the_host() -> None:
    gpu = read_gpu(
        "<product_name>NVIDIA GB10</product_name><fb_memory_usage><total>N/A</total>"
        "</fb_memory_usage><utilization><gpu_util>GPU is lost</gpu_util></utilization>"
    )
    assert (gpu.memory_shared, gpu.fault is not None) == (False, True)


def test_a_gpu_without_memory_of_its_own_shares_the_memory_of_the_host() -> None:
    fb = "<fb_memory_usage><total>N/A</total><used>N/A</used></fb_memory_usage>"
    assert read_gpu(f"<product_name>NVIDIA GB10</product_name>{fb}").memory_shared
    assert read_gpu(f"<product_name>Orin (nvgpu)</product_name>{fb}").memory_shared
    assert read_gpu(f"<addressing_mode>ATS</addressing_mode>{fb}").memory_shared
    assert not read_gpu(f"<product_name>NVIDIA GB100</product_name>{fb}").memory_shared
    assert not read_gpu("<product_name>NVIDIA GB10</product_name>").memory_shared
    none = read_gpu(f"<product_name>NVIDIA Thor</product_name>{fb.replace('N/A', '0 MiB')}")
    assert (none.memory_shared, none.memory_total_bytes, none.memory_used_bytes) == (
        True,
        None,
        None,
    )


@pytest.mark.parametrize(
    "written, detail",
    [
        (
            "<gpu_recovery_action>Reset</gpu_recovery_action>",
            "the driver asks for recovery: Reset",
        ),
        (
            "<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>",
            "reset required",
        ),
        (
            "<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>",
            "memory rows could not be remapped",
        ),
        ("<clocks><sm_clock>GPU requires reset</sm_clock></clocks>", "GPU requires reset"),
    ],
)
def test_a_gpu_that_needs_a_reset_has_a_fault_with_a_remedy(written: str, detail: str) -> None:
    fault = read_gpu(written).fault
    assert fault is not None
    assert (fault.kind, fault.detail) == ("needs_reset", detail)
    assert fault.remedy


@pytest.mark.parametrize(
    "written, pending",
    [
        (
            "<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>",
            "memory pages are to be retired at the next reset",
        ),
        (
            "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>",
            "memory rows are to be remapped at the next reset",
        ),
        ("<gpu_recovery_action>Drain and Reset</gpu_recovery_action>", "Drain and Reset"),
    ],
)
def test_a_reset_that_can_wait_is_no_fault(written: str, pending: str) -> None:
    gpu = read_gpu(written)
    assert (gpu.fault, gpu.reset_pending) == (None, pending)


@pytest.mark.parametrize(
    "action", ["None", "N/A", "Requested functionality has been deprecated", "Unknown Error"]
)
def test_a_gpu_that_needs_no_recovery_has_no_fault(action: str) -> None:
    assert read_gpu(f"<gpu_recovery_action>{action}</gpu_recovery_action>").fault is None


def test_each_mig_instance_has_its_memory_its_processes_and_its_uuid() -> None:
    (gpu,) = parse_xml(document(MIG_XML), LISTING).gpus
    first, second = gpu.instances
    assert (first.uuid, first.profile, second.uuid, second.profile) == (
        "MIG-aaaa",
        "3g.40gb",
        "MIG-bbbb",
        "1g.10gb",
    )
    assert (first.gpu_instance_id, first.compute_instance_id) == (2, 0)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (11091 * MIB, 40448 * MIB)
    assert (second.memory_used_bytes, second.memory_total_bytes) == (None, None)
    assert [process.pid for process in first.processes or ()] == [20]
    assert [process.pid for process in second.processes or ()] == [90]
    assert [(process.pid, process.kind) for process in gpu.processes or ()] == [
        (90, "compute"),
        (20, "mps"),
    ]
    assert (gpu.mig_mode, gpu.memory_total_bytes) == (True, 81559 * MIB)


@pytest.mark.parametrize("listing", ["", "garbage", LISTING.replace(UUID, "GPU-another")])
def test_without_the_list_a_mig_instance_has_a_stable_placeholder_id(listing: str) -> None:
    (gpu,) = parse_xml(document(MIG_XML), listing).gpus
    assert [instance.uuid for instance in gpu.instances] == [f"{UUID}/2/0", f"{UUID}/9/0"]


@pytest.mark.parametrize("folder", ["nvidia/xml", "nvidia/xml-mock", "nvidia/xml-fragments"])
def test_captured_documents_agree_with_a_second_naive_parser(folder: str) -> None:
    tallies = [CHECKS[folder](path) for path in capture_files(folder)]
    assert [line for tally in tallies for line in tally.wrong] == []
    if folder != "nvidia/xml-fragments":
        assert all(tally.read and tally.fields for tally in tallies)


def test_the_naive_parser_notices_a_wrong_number() -> None:
    xml = next(iter(capture_files("nvidia/xml")), None)
    if xml is None:
        return
    tally = check_xml(xml)
    gpu = parse_xml(capture_text(xml)).gpus[0]
    tally.compare("here", {"memory_used_bytes": -1}, gpu)
    assert len(tally.wrong) == 1


def test_captured_fragments_are_parsed_as_far_as_they_go() -> None:
    heads = [path for path in capture_files("nvidia/xml-fragments") if "head" in path.name]
    gpus = [gpu for path in heads for gpu in parse_xml(capture_text(path)).gpus]
    assert len(gpus) == len(heads)
    assert all(gpu.name and gpu.pci_bus_id and gpu.memory_total_bytes is None for gpu in gpus)
    assert all(gpu.fault is not None and gpu.fault.kind == "unreadable" for gpu in gpus)


@pytest.mark.parametrize("folder", ["q-text", "table", "pmon-dmon", "help", "csv", "topology"])
def test_output_of_other_commands_is_refused(folder: str) -> None:
    for path in capture_files(f"nvidia/{folder}"):
        with pytest.raises(ReadFailed):
            parse_xml(capture_text(path))
