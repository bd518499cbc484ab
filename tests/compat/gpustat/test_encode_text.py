"""Encoding as the text output of gpustat: layout, colours, round trips."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.compat.gpustat import codec
from fleet_smi.compat.gpustat.codec import GpustatOptions
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Fault, Gpu, Host, Process, Snapshot
from fleet_smi.model.units import MIB
from tests.builders import NOON, gpu, instance, process, snapshot

WHEN = "Sun Nov 15 19:30:14 2026"
ALL = GpustatOptions(
    command=True,
    user=True,
    pid=True,
    full_command=True,
    fan=True,
    encoder=True,
    decoder=True,
    power="limit",
)
CUP = GpustatOptions(command=True, user=True, pid=True)
PLAIN = GpustatOptions(header=False, processes=False)


def line_of(card: Gpu, options: GpustatOptions = PLAIN) -> str:
    return codec.node_text(snapshot(card), WHEN, replace(options, header=False)).rstrip("\n")


def message() -> st.SearchStrategy[str]:
    return st.from_regex(r"[a-z][a-z0-9_-]{0,12}", fullmatch=True)


def percents() -> st.SearchStrategy[float | None]:
    return st.none() | st.integers(0, 100).map(float)


def mebibytes() -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, 99_999).map(MIB.__mul__)


PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 4_194_304),
    kind=st.just("compute"),
    user=message(),
    name=message().map("x{}".format),
    command=message().map("python {}.py --epochs 90".format),
    gpu_memory_bytes=mebibytes(),
    cpu_percent=st.integers(0, 6400).map(float),
    host_memory_bytes=st.integers(0, 9999),
)
GPUS = st.builds(
    Gpu,
    uuid=st.uuids().map("GPU-{}".format),
    index=st.just(0),
    vendor=st.just("nvidia"),
    reported_by=st.just("gpustat"),
    name=message().map("NVIDIA {}".format),
    temperature_celsius=st.none() | st.integers(0, 120).map(float),
    fan_percent=percents(),
    busy_percent=percents(),
    encoder_percent=percents(),
    decoder_percent=percents(),
    power_watts=st.none() | st.integers(0, 999).map(float),
    power_limit_watts=st.none() | st.integers(0, 999).map(float),
    memory_used_bytes=st.none() | st.integers(0, 999).map(MIB.__mul__),
    memory_total_bytes=st.integers(1000, 99_999).map(MIB.__mul__),
    processes=st.none() | st.lists(PROCESSES, max_size=4, unique_by=lambda one: one.pid).map(tuple),
)


def numbered(cards: list[Gpu]) -> Snapshot:
    return snapshot(*(replace(card, index=at) for at, card in enumerate(cards)), node="cml10")


@given(st.lists(GPUS, min_size=1, max_size=4), st.booleans())
def test_text_reads_back_as_it_was_written(cards: list[Gpu], colour: bool) -> None:
    node = numbered(cards)
    text = codec.node_text(node, WHEN, replace(ALL, colour=colour))
    (read,) = codec.decode_gpustat(text.encode(), "cml10", NOON)
    assert isinstance(read, Snapshot)
    unknown = {"uuid": "", "uuid_is_made": True}
    assert [replace(each, **unknown) for each in read.gpus] == [
        replace(each, **unknown) for each in node.gpus
    ]


@given(st.lists(GPUS, min_size=1, max_size=4))
def test_json_reads_back_as_it_was_written(cards: list[Gpu]) -> None:
    node = numbered(cards)
    (read,) = codec.decode_gpustat(codec.node_json(node, "2026-11-15T19:30:14"), "cml10", NOON)
    assert isinstance(read, Snapshot)
    assert read.gpus == node.gpus


@given(
    st.builds(
        GpustatOptions,
        command=st.booleans(),
        user=st.booleans(),
        pid=st.booleans(),
        fan=st.booleans(),
        encoder=st.booleans(),
        decoder=st.booleans(),
        power=st.sampled_from(["draw", "limit", None]),
        name_width=st.none() | st.integers(0, 30),
        header=st.booleans(),
        colour=st.booleans(),
    ),
    GPUS,
)
def test_with_any_options_nothing_that_is_shown_is_read_as_something_else(
    options: GpustatOptions, card: Gpu
) -> None:
    text = codec.node_text(snapshot(card, node="cml10"), WHEN, options)
    (read,) = codec.decode_gpustat(text.encode(), "cml10", NOON)
    assert isinstance(read, Snapshot)
    (seen,) = read.gpus
    for field in ("busy_percent", "temperature_celsius", "memory_used_bytes"):
        assert getattr(seen, field) == getattr(card, field)
    for field in ("fan_percent", "encoder_percent", "decoder_percent", "power_watts"):
        assert getattr(seen, field) in (None, getattr(card, field))
    memory = [one.gpu_memory_bytes for one in card.processes or ()]
    assert [one.gpu_memory_bytes for one in seen.processes or ()] == memory


@pytest.mark.parametrize(
    "options, line",
    [
        (GpustatOptions(), "[0] A100 | 33°C,   7 % | 16384 / 81559 MB | alice(16384M)"),
        (
            GpustatOptions(command=True),
            "[0] A100 | 33°C,   7 % | 16384 / 81559 MB | python(16384M)",
        ),
        (CUP, "[0] A100 | 33°C,   7 % | 16384 / 81559 MB | alice:python/4711(16384M)"),
        (
            replace(PLAIN, fan=True, power="draw"),
            "[0] A100 | 33°C,  ?? %,   7 %,   71 W | 16384 / 81559 MB",
        ),
        (
            replace(PLAIN, encoder=True, power="limit"),
            "[0] A100 | 33°C,   7 % (E:  ?? %),   71 / 700 W | 16384 / 81559 MB",
        ),
        (replace(PLAIN, name_width=3), "[0] …00 | 33°C,   7 % | 16384 / 81559 MB"),
        (replace(PLAIN, name_width=6), "[0] A100   | 33°C,   7 % | 16384 / 81559 MB"),
        (replace(PLAIN, name_width=0), "[0]  33°C,   7 % | 16384 / 81559 MB"),
    ],
)
def test_the_line_is_gpustats_own(options: GpustatOptions, line: str) -> None:
    card = gpu(name="A100", busy_percent=7.0, memory_used_bytes=16 << 30, processes=(process(),))
    assert line_of(card, options) == line


def test_the_header_has_host_date_and_driver() -> None:
    node = replace(snapshot(gpu(name="A100")), host=replace(snapshot().host, driver_version="550"))
    text = codec.node_text(node, WHEN, GpustatOptions())
    assert text.splitlines()[0] == f"gpu01    {WHEN}  550"


def test_a_driver_that_is_not_known_is_left_out_of_the_header() -> None:
    header, *_ = codec.node_text(snapshot(gpu(), host=Host()), WHEN, GpustatOptions()).splitlines()
    assert header.endswith(f"  {WHEN}")


def test_what_is_not_known_of_a_process_is_neither_zero_nor_a_command() -> None:
    unseen = process(4711, None, name=None, hidden=True, host_memory_bytes=None, cpu_percent=None)
    sent = snapshot(gpu(processes=(unseen,)))
    text = codec.node_text(sent, WHEN, GpustatOptions(full_command=True))
    assert text.endswith(" └─   4711 (  --%,     ?B): ?\n")
    document = codec.node_json(sent, "2026-11-15T19:30:14")
    assert msgspec.json.decode(document)["gpus"][0]["processes"][0]["full_command"] == []
    for body in (text.encode(), document):
        (read,) = codec.decode_gpustat(body, "gpu01", NOON)
        assert isinstance(read, Snapshot)
        (found,) = read.gpus[0].processes or ()
        assert (found.command, found.host_memory_bytes, found.cpu_percent) == (None, None, None)


def test_a_node_without_gpus_says_so() -> None:
    assert codec.node_text(snapshot(), WHEN, PLAIN) == "(No GPUs are available)\n"


@pytest.mark.parametrize(
    "kind, name",
    [
        ("lost", "((GPU is lost))"),
        ("missing", "((GPU is lost))"),
        ("unreadable", "((Unknown Error))"),
    ],
)
def test_a_gpu_with_a_fault_stops_no_report(kind: Any, name: str) -> None:
    card = gpu(fault=Fault(kind=kind, detail="x"))
    line = f"[0] {name} |  ?°C,   ? % |     ? /     ? MB | (Not Supported)"
    assert line_of(card, GpustatOptions()) == line


@pytest.mark.parametrize(
    "field, key, limit",
    [
        ("temperature_celsius", "31", 50),
        ("busy_percent", "32", 30),
        ("fan_percent", "36", 30),
        ("encoder_percent", "32", 50),
        ("power_watts", "35", 280),
    ],
)
def test_a_figure_is_bold_from_its_threshold_on(field: str, key: str, limit: int) -> None:
    def shown(value: float | None) -> str:
        card = replace(gpu(), **{field: value})
        return line_of(card, replace(ALL, full_command=False, colour=True))

    strong = f"\x1b[1m\x1b[{key}m{limit:>3}"
    assert strong in shown(float(limit))
    assert f"\x1b[1m\x1b[{key}m{limit - 1:>3}" not in shown(limit - 1.0)
    assert f"\x1b[{key}m{limit - 1:>3}" in shown(limit - 1.0)
    assert "\x1b[2m ??" in shown(None)


def test_no_text_is_in_the_colour_of_a_dark_background() -> None:
    card = gpu(processes=(process(),), fan_percent=None)
    text = codec.node_text(snapshot(card), WHEN, replace(ALL, colour=True))
    assert "\x1b[30m" not in text
    assert "\x1b[2malice" in text


def test_plain_is_coloured_without_its_codes() -> None:
    node = snapshot(gpu(processes=(process(),)), gpu(1, fault=Fault(kind="lost", detail="x")))
    coloured = codec.node_text(node, WHEN, replace(ALL, colour=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == codec.node_text(node, WHEN, ALL)


def test_a_hidden_user_is_shown_as_unknown_and_not_dropped() -> None:
    unseen = process(4711, None, name=None, hidden=True, gpu_memory_bytes=9000 * MIB)
    assert line_of(gpu(processes=(unseen,)), CUP).endswith("| --:--/4711(9000M)")


def test_memory_that_no_process_accounts_for_is_said_and_stays_a_ghost_when_read() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(memory_used_bytes=9004 * MIB)), NOON)
    (node,) = fleet.view(NOON).nodes
    text = codec.node_text(node, WHEN, CUP)
    assert text.endswith("| (9004M unaccounted)\n")
    (read,) = codec.decode_gpustat(text.encode(), "gpu01", NOON)
    assert isinstance(read, Snapshot)
    fleet.apply(read, NOON)
    assert [one.gpus[0].verdict.state for one in fleet.view(NOON).nodes] == ["ghost", "ghost"]


def test_who_is_on_an_instance_is_on_its_gpu() -> None:
    card = gpu(mig_mode=True, instances=(instance(processes=(process(),)),), busy_percent=None)
    assert line_of(card, CUP).endswith("alice:python/4711(16384M)")


def test_a_silent_node_is_a_line_that_says_why_and_never_old_figures() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON - 600, Via("files", "gpu01"))
    fleet.record_failure(Via("files", "gpu01"), "is empty", NOON)
    text = codec.fleet_text(fleet.view(NOON), lambda _: WHEN, CUP)
    assert text == "(gpu01) silent for 10 min: is empty\n"


def test_what_no_line_may_hold_is_not_in_it() -> None:
    evil = process(user="ev\x1b[2Jil\n[9] x", name="\u202eabc", command="x\ny \x07z")
    text = codec.node_text(snapshot(gpu(processes=(evil,))), WHEN, ALL)
    assert text.count("\n") == 3
    assert all(line.isprintable() for line in text.splitlines())


def test_several_nodes_are_a_list_and_a_pid_that_is_not_known_is_null() -> None:
    (one,) = codec.decode_gpustat(b"[0] A100 | 1'C,  0 % |  5 / 9 MB | alice(5M)\n", "a", NOON)
    assert isinstance(one, Snapshot)
    other = replace(one, name="b", node_id="gpustat-b")
    first, second = codec.decode_gpustat(codec.nodes_json([(one, "x"), (other, "y")]), "file", NOON)
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert (first.name, second.name) == ("a", "b")
    (seen,) = first.gpus[0].processes or ()
    assert seen.pid_is_made
    assert first.gpus[0].uuid_is_made
