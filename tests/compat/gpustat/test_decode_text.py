"""Decoding the text output of gpustat, of every version and with any options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.gpustat import codec
from fleet_smi.errors import EmptyReport, TruncatedReport, Undecodable, Unreachable
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.model.units import KIB, MIB
from tests.builders import NOON
from tests.verdicts import judge_once

HEADER = "cml10                    Sun Nov  5 19:30:14 2026  550.90.07\n"
LINE = "[1] RTX 3090 | 71°C,  97 % | 13578 / 24576 MB |"


def read(text: str | bytes, host: str = "cml10") -> Snapshot:
    body = text.encode() if isinstance(text, str) else text
    (decoded,) = codec.decode_gpustat(body, host, NOON)
    assert isinstance(decoded, Snapshot)
    return decoded


def gpu_in(line: str) -> Gpu:
    (gpu,) = read(f"{line}\n").gpus
    return gpu


def processes_in(listed: str) -> tuple[Process, ...]:
    found = gpu_in(f"{LINE}{listed}").processes
    assert found is not None
    return found


def test_a_host_is_known_by_the_name_of_its_file_and_cards_by_their_place() -> None:
    decoded = read(HEADER + LINE + "\n", host="lab one/ü")
    assert (decoded.node_id, decoded.name) == ("gpustat-lab_one_", "lab one/ü")
    assert decoded.host.driver_version == "550.90.07"
    (gpu,) = decoded.gpus
    assert (gpu.uuid, gpu.uuid_is_made) == ("gpustat-gpu1@gpustat-lab_one_", True)


@pytest.mark.parametrize(
    "header, driver",
    [
        ("cml10  Sun Nov 15 19:30:22 2026", None),
        ("cml10  2026年11月15日 星期日 19时30分22秒  470.82.01", "470.82.01"),
        ("cml10.lab.example  So 15 Nov 2026 19:30:22 CET  352.93", "352.93"),
        ("cml10  Sun Nov 15 19:30:22 2026  None", None),
    ],
)
def test_a_header_of_any_locale_is_not_a_gpu(header: str, driver: str | None) -> None:
    decoded = read(f"{header}\n{LINE}\n")
    assert decoded.host.driver_version == driver
    assert [gpu.index for gpu in decoded.gpus] == [1]


@pytest.mark.parametrize("degree", ["°", "'", "\ufffd"])
def test_every_option_adds_its_figure(degree: str) -> None:
    gpu = gpu_in(
        f"[10] NVIDIA | odd | 71{degree}C,  64 %,  97 % (E:   3 %  D:  ?? %),  341 / 350 W"
        " | 13578 / 24576 MB |"
    )
    assert (gpu.index, gpu.name) == (10, "NVIDIA | odd")
    assert (gpu.temperature_celsius, gpu.fan_percent, gpu.busy_percent) == (71, 64, 97)
    assert (gpu.encoder_percent, gpu.decoder_percent) == (3, None)
    assert (gpu.power_watts, gpu.power_limit_watts) == (341, 350)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (13578 * MIB, 24576 * MIB)
    assert gpu.processes == ()


@pytest.mark.parametrize("power", [",   24 W", ",   24  "])
def test_the_draw_alone_is_read_with_or_without_its_unit(power: str) -> None:
    gpu = gpu_in(f"[0] RTX 3090 | 34°C,   0 %{power} |     4 / 24576 MB |")
    assert (gpu.power_watts, gpu.power_limit_watts) == (24, None)


def test_without_a_name_there_is_none_and_a_cut_one_stays_cut() -> None:
    assert gpu_in("[0]  34°C,   0 % |     4 / 24576 MB |").name is None
    assert gpu_in("[0] … RTX 3090 | 34°C,   0 % |     4 / 24576 MB |").name == "… RTX 3090"


def test_what_is_not_supported_is_unknown_and_not_zero() -> None:
    gpu = gpu_in("[0] GB10 | ??°C,  ?? %,  ?? %,   ?? /  ?? W |    ?? /    ?? MB | (Not Supported)")
    known = (gpu.temperature_celsius, gpu.fan_percent, gpu.busy_percent, gpu.power_watts)
    assert known == (None, None, None, None)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.processes) == (None, None, None)
    assert gpu.fault is None


@pytest.mark.parametrize(
    "name, kind, state",
    [("((GPU is lost))", "lost", "broken"), ("((Unknown Error))", "unreadable", "unknown")],
)
def test_a_lost_gpu_stays_listed_and_is_called_so(name: str, kind: str, state: str) -> None:
    lost, fine = read(
        f"[0] {name} |  ?°C,   ? % |     ? /     ? MB | (Not Supported)\n{LINE}\n"
    ).gpus
    assert lost.fault is not None
    assert (lost.fault.kind, lost.name, judge_once(lost).state) == (kind, None, state)
    assert fine.fault is None


def test_no_gpus_at_all_is_an_answer() -> None:
    assert read(HEADER + "(No GPUs are available)\n").gpus == ()


@pytest.mark.parametrize(
    "listed, user, name, pid",
    [
        (" alice:python3/4711(2310M)", "alice", "python3", 4711),
        (" alice:python3(2310M)", "alice", "python3", None),
        (" alice/4711(2310M)", "alice", None, 4711),
        (" alice(2310M)", "alice", None, None),
        (" python3.11/4711(2310M)", None, "python3.11", 4711),
        (" ray::train(2310M)", None, "ray::train", None),
        (" LAB\\jane.doe:my tool (v2)/4711(2310M)", "LAB\\jane.doe", "my tool (v2)", 4711),
        (" ?:python/4711(2310M)", None, "python", 4711),
        (" --:--/4711(2310M)", None, None, 4711),
    ],
)
def test_a_process_is_read_by_whatever_options_it_was_printed(
    listed: str, user: str | None, name: str | None, pid: int | None
) -> None:
    (process,) = processes_in(listed)
    assert (process.user, process.name) == (user, name)
    assert process.pid == pid if pid else process.pid_is_made
    assert process.gpu_memory_bytes == 2310 * MIB
    assert process.hidden == (user is None and name is None)


def test_labels_are_programs_if_one_of_them_is_well_known() -> None:
    on_both = read(f"{LINE} trainer(5M)\n[2]{LINE[3:]} python3(7M)\n").gpus
    names = [process.name for gpu in on_both for process in gpu.processes or ()]
    assert names == ["trainer", "python3"]


def test_processes_without_a_pid_get_stable_distinct_pids() -> None:
    first, again = processes_in(" alice(5M) alice(7M) bob(1M)"), processes_in(" bob(9M) alice(5M)")
    assert len({process.pid for process in first}) == 3
    assert {process.pid for process in again} <= {process.pid for process in first}


def test_missing_memory_is_unknown() -> None:
    (process,) = processes_in(" alice(?M)")
    assert process.gpu_memory_bytes is None


def test_whole_commands_are_joined_to_their_processes_without_their_secrets() -> None:
    text = (
        f"{LINE} alice(11264M) bob(2310M)\n"
        " ├─  11108 (  12%, 8204KB): python train.py --password hunter2\n"
        " └─     -- (   0%,    0B): ?\n"
    )
    (gpu,) = read(text).gpus
    alice, bob = gpu.processes or ()
    assert (alice.pid, alice.command) == (11108, "python train.py --password •••")
    assert (alice.cpu_percent, alice.host_memory_bytes) == (12, 8204 * KIB)
    assert bob.pid_is_made
    assert bob.command is None


def test_a_display_server_does_not_occupy_a_gpu() -> None:
    (xorg,) = processes_in(" root:Xorg/900(35M)")
    assert xorg.kind == "graphics"


def test_memory_whose_process_gpustat_dropped_is_not_free() -> None:
    gpu = gpu_in("[3] A100 | 29°C,   0 % |  9004 / 81920 MB |")
    assert gpu.processes == ()
    assert judge_once(gpu).state == "ghost"


def test_without_processes_their_list_is_unknown_and_the_run_says_so() -> None:
    decoded = read("[0] RTX 3090 | 34°C,   0 % |     4 / 24576 MB\n")
    assert decoded.gpus[0].processes is None
    (run,) = decoded.runs
    assert (run.name, run.outcome) == ("gpustat", "ok")
    assert run.detail == "does not report UUIDs, clocks, memory errors, MIG, power, fans, processes"


COLOURED_BY_0_3 = (
    "\x1b[1mcml10\x1b[0m  Sun Nov 15 19:30:22 2026\n\x1b[0;36m[1]\x1b[0m \x1b[0;34mA100\x1b[0m"
    " |\x1b[1;31m 71'C\x1b[0m, \x1b[1;32m 97 %\x1b[0m | \x1b[0;36m\x1b[1;33m13578\x1b[0m /"
    " \x1b[0;33m24576\x1b[0m MB | \x1b[1;30malice\x1b[0m(\x1b[0;33m5M\x1b[0m)\n"
)
COLOURED_BY_TERMINFO = (
    "\x1b[36m[1]\x1b(B\x1b[m \x1b[34mA100\x1b(B\x1b[m |\x1b[1m\x1b[31m 71'C\x1b(B\x1b[m\x0f,"
    " 97 % | 13578 / 24576 MB | alice(5M)\x1b[K\r\n"
)
WITHOUT_DRIVER = (
    b"Error on querying NVIDIA devices. Use --debug flag to see more details.\n"
    b"NVML Shared Library Not Found\n"
)


@pytest.mark.parametrize("coloured", [COLOURED_BY_0_3, COLOURED_BY_TERMINFO])
def test_colours_of_any_terminal_are_ignored(coloured: str) -> None:
    (gpu,) = read(coloured).gpus
    assert (gpu.name, gpu.temperature_celsius, gpu.busy_percent) == ("A100", 71, 97)
    assert [process.user for process in gpu.processes or ()] == ["alice"]


@pytest.mark.parametrize(
    "failed",
    ["Error on querying NVIDIA devices: nvidia: NVML not found\n", WITHOUT_DRIVER.decode()],
)
def test_a_host_whose_driver_failed_is_there_with_the_reason_and_hides_no_other(
    failed: str,
) -> None:
    head = "  Sun Nov 15 19:33:01 2026  550.90.07\n"
    text = f"gpu01{head}{failed}gpu02{head}{LINE}\n"
    first, second = codec.decode_gpustat(text.encode(), "all", NOON)
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert (first.name, first.gpus, len(second.gpus)) == ("gpu01", (), 1)
    run = first.runs[0]
    assert (run.name, run.outcome) == ("nvidia", "failed")
    assert "ot found" in run.detail or "Not Found" in run.detail
    assert all(run.outcome == "ok" for run in second.runs)


def test_several_hosts_in_one_text_are_named_by_their_headers_and_failures_by_their_own_lines() -> (
    None
):
    text = (
        f"gpu01  Sun Nov 15 19:33:01 2026  550.90.07\n{LINE} alice(5M)\n"
        f"gpu02  Sun Nov 15 19:33:01 2026  550.90.07\n{LINE}\n"
        "(gpu03) [Errno 111] Connect call failed\n"
    )
    first, second, failed = codec.decode_gpustat(text.encode(), "gpustat", NOON)
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert (first.node_id, second.node_id) == ("gpustat-gpu01", "gpustat-gpu02")
    assert isinstance(failed, Unreachable)
    assert (failed.node, failed.message) == ("gpu03", "[Errno 111] Connect call failed")


def test_a_line_that_cannot_be_parsed_hides_no_other_gpu() -> None:
    odd, fine = read(f"[0] garbage \x1b]8;;javascript:alert(1)\x07\n{LINE}\n").gpus
    assert odd.fault is not None
    assert "cannot be parsed: [0] garbage" in odd.fault.detail
    assert "\x1b" not in odd.fault.detail
    assert fine.fault is None


def test_a_gpu_that_is_listed_twice_is_read_once() -> None:
    (gpu,) = read(f"{LINE}\n[1] FAKE | 1°C,   0 % |     0 / 1 MB |\n").gpus
    assert gpu.name == "RTX 3090"


@pytest.mark.parametrize(
    "body, kind, message",
    [
        (b"", EmptyReport, "is empty"),
        (b" \n", EmptyReport, "is empty"),
        (f"{HEADER}{LINE} alice:pyth".encode(), TruncatedReport, "breaks off"),
        (f"{HEADER}{LINE}\n\x1b[0;".encode(), TruncatedReport, "half an escape code"),
        (HEADER.encode(), TruncatedReport, "breaks off after its header"),
        (HEADER.encode() + b"\0" * 200, TruncatedReport, "contains NUL bytes"),
        (b"\xff\xfe\x01 binary\n", Undecodable, "is not output of gpustat"),
        (b"bash: gpustat: command not found\n", Undecodable, "gpustat: command not found"),
        (WITHOUT_DRIVER, Undecodable, "gpustat failed on it: NVML Shared Library Not Found"),
    ],
    ids=["empty", "blank", "line", "escape", "header", "hole", "binary", "shell", "driver"],
)
def test_truncated_and_foreign_output_is_reported_as_such(
    body: bytes, kind: type[Undecodable], message: str
) -> None:
    with pytest.raises(Undecodable, match=message) as caught:
        read(body)
    assert type(caught.value) is kind


@given(st.integers(0, 400))
def test_however_much_of_it_is_missing_it_is_never_taken_for_the_whole(length: int) -> None:
    full_text = f"{HEADER}{LINE} alice:python/4711(11264M)\n[2]{LINE[3:]}\n".encode()
    try:
        gpus = read(full_text[:length]).gpus
    except Undecodable:
        return
    assert full_text[:length].endswith(b"\n")
    assert len(gpus) == full_text[:length].count(b"MB")


_PIECES = st.sampled_from(
    [
        *("[0] ", "[1] A100", " |", " 71°C, ", " 97 %", " | ", "13578", " / 24576", " MB", " |"),
        *(" alice", ":python", "/4711", "(2310M)", "(?M)", "(Not Supported)", "\n", " ├─ 1 (0%, "),
        *("4KB): x", "\x1b[31m", "\x1b", "\0", "{", '"gpus": [', "(gpu03) no", HEADER, "\u202e"),
    ]
)


@given(st.lists(_PIECES | st.text(max_size=20), max_size=30).map("".join))
def test_whatever_is_in_a_file_it_is_read_or_refused(text: str) -> None:
    try:
        decoded = codec.decode_gpustat(text.encode("utf-8", "replace"), "cml10", NOON)
    except Undecodable:
        return
    assert all(isinstance(each, Snapshot | Unreachable) for each in decoded)


def test_a_hostile_line_does_not_delay_the_agent() -> None:
    for line in ("[0] " + " " * 200_000, f"{LINE}" + " a:b" * 100_000, "[0] " + "|" * 200_000):
        assert len(read(f"{line}\n").gpus) == 1
