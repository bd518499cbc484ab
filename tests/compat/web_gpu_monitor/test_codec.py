"""The web-gpu-monitor codec: `load_data.csv`, both ways."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.web_gpu_monitor.codec import COLUMNS, decode_load_data, encode
from fleet_smi.errors import Undecodable
from fleet_smi.model.fleet import STATES, FleetView, JudgedGpu, State
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.uuids import with_unique_uuids
from fleet_smi.model.verdict.last_known import mark_all_silent
from fleet_smi.wire.report import decode_report, encode_report, encode_snapshot
from tests.compat.seed_samples import seed_sample
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import busy_gpu, fleet, gpu, hidden_process, node, process, verdict

HEADER = ",load,load_mem,gpu_idx,gpu_name,gpu_uuid,hostname,username\n"


def rows(view: FleetView) -> list[list[str]]:
    return list(csv.reader(io.StringIO(encode(view), newline="")))


def gpus(*lines: str) -> tuple[Gpu, ...]:
    (snapshot,) = decode_load_data((HEADER + "\n".join(lines) + "\n").encode(), 1.0)
    return snapshot.gpus


def users(one: Gpu) -> list[str | None]:
    return [process.user for process in one.processes or ()]


def test_the_sample_of_the_real_program_reads_to_its_two_hosts() -> None:
    first, second = decode_load_data(seed_sample("web-gpu-monitor/load_data.csv"), 5.0)
    assert (first.name, first.taken_at) == ("gpu01.lab.example.org", 5.0)
    assert first.node_id == "load_data-gpu01.lab.example.org"
    assert [gpu.busy_percent for gpu in first.gpus] == [0.0, 97.0, 43.0, 0.0]
    assert first.gpus[2].uuid == "GPU-3aa99ee2-4a9f-470e-3798-70aaed942682"
    assert [users(gpu) for gpu in second.gpus] == [[], ["alice", "bob"], ["alice", "carol"], [None]]


def test_memory_activity_is_not_memory_in_use() -> None:
    (one,) = gpus("0,97,41,1, NVIDIA GeForce RTX 3090, GPU-1,gpu01,alice")
    assert one.memory_busy_percent == 41.0
    assert one.memory_used_bytes is None and one.memory_total_bytes is None


def test_leading_blanks_are_no_part_of_a_name() -> None:
    (one,) = gpus("0,97,41,1, NVIDIA A100, GPU-1, gpu01 , alice")
    assert (one.name, one.uuid, users(one)) == ("NVIDIA A100", "GPU-1", ["alice"])


def test_a_zombie_is_a_process_whose_owner_cannot_be_seen() -> None:
    (one,) = gpus('0,0,0,3,A100,GPU-1,gpu01,"Zombie, bob"')
    zombie, bob = one.processes or ()
    assert zombie.hidden and zombie.user is None
    assert not bob.hidden and bob.pid != zombie.pid


def test_the_collector_run_states_what_the_format_lacks() -> None:
    (snapshot,) = decode_load_data((HEADER + "0,1,2,0,A100,GPU-1,gpu01,\n").encode(), 1.0)
    (run,) = snapshot.runs
    assert run.name == "load_data" and run.detail.startswith("does not report memory in use")


@pytest.mark.parametrize(
    ("cells", "load", "memory"),
    [("[N/A],41", None, 41.0), ("400,-1", None, None), (",", None, None)],
)
def test_a_load_that_is_none_is_unknown_and_does_not_hide_the_gpu(
    cells: str, load: float | None, memory: float | None
) -> None:
    (one,) = gpus(f"0,{cells},0,A100,GPU-1,gpu01,")
    assert (one.busy_percent, one.memory_busy_percent) == (load, memory)


def test_one_bad_row_hides_no_other_and_is_counted() -> None:
    body = HEADER + "0,1,2,zero,A100,GPU-0,gpu01,\n1,1,2,1,A100,GPU-1,gpu01,\n2,5\n"
    (snapshot,) = decode_load_data(body.encode(), 1.0)
    assert [gpu.index for gpu in snapshot.gpus] == [1]
    assert "1 of its rows could not be read" in snapshot.runs[0].detail


def test_a_gpu_without_a_uuid_is_identified_by_its_index() -> None:
    (one,) = gpus("0,1,2,3,A100,,gpu01,")
    assert one.uuid_is_made and one.uuid == "nvidia-gpu3@load_data-gpu01"


@pytest.mark.parametrize("body", [b"", b"load,gpu_idx\n1,2\n", b"<html>", b"\x00\xff\xfe"])
def test_what_is_no_load_data_says_which_column_is_missing(body: bytes) -> None:
    with pytest.raises(Undecodable, match=r"not a load_data\.csv: it has no column load"):
        decode_load_data(body, 1.0)


def test_it_is_written_with_the_columns_and_rows_of_the_real_program() -> None:
    view = fleet(
        node(
            "gpu01", gpu(0, verdict("free")), busy_gpu(1, process("bob"), memory_busy_percent=41.4)
        ),
        node("gpu02", busy_gpu(0, process("eve", pid=1), process("eve", pid=2), hidden_process())),
    )
    header, *body = rows(view)
    assert tuple(header) == COLUMNS == tuple(HEADER.strip().split(","))
    assert [row[0] for row in body] == ["0", "1", "0"]
    assert body[1][1:4] == ["96", "41", "1"]
    assert [row[-1] for row in body] == ["", "bob", "eve, eve, Zombie"]


def test_unknown_is_written_as_nothing_and_zero_as_zero() -> None:
    unknown = gpu(0, verdict("free"), busy_percent=None, memory_busy_percent=None)
    zero = gpu(1, verdict("free"), memory_busy_percent=0.0)
    _, first, second = rows(fleet(node("n", unknown, zero)))
    assert first[1:3] == ["", ""] and second[1:3] == ["0", "0"]


def test_a_gpu_of_a_silent_node_has_no_load_and_keeps_its_users() -> None:
    silent = node(
        "gone",
        busy_gpu(0, process("alice"), judged=verdict("unknown", was="busy (alice)")),
        gpu(1, verdict("unknown", was="free"), memory_busy_percent=0.0),
        gpu(2, verdict("broken"), memory_busy_percent=0.0),
        silent=True,
    )
    _, *body = rows(fleet(silent, node("mute", gpu(0, verdict("unknown")))))
    assert [row[1:3] for row in body] == [["", ""]] * 4
    assert [row[-1] for row in body] == ["alice", "Zombie", "Zombie", "Zombie"]


def test_once_the_hub_is_gone_no_gpu_has_a_load_or_reads_as_free() -> None:
    view = fleet(node("n", gpu(0, verdict("free")), busy_gpu(1, process("bob"))))
    _, *body = rows(mark_all_silent(view, 60.0))
    assert [(*row[1:3], row[-1]) for row in body] == [("", "", "Zombie"), ("", "", "bob")]


@pytest.mark.parametrize("state", STATES)
def test_only_a_free_gpu_has_no_user(state: State) -> None:
    (row,) = rows(fleet(node("n", gpu(0, verdict(state)))))[1:]
    assert row[-1] == ("" if state == "free" else "Zombie")


def test_a_display_process_is_not_work() -> None:
    _, *body = rows(fleet(samples.mixed()))
    assert [row[-1] for row in body] == ["alice", "", ""]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(1)"])
def test_a_name_that_looks_like_a_formula_is_quoted_and_reads_back(name: str) -> None:
    view = fleet(node(name, busy_gpu(0, process(name), name=name)))
    (row,) = rows(view)[1:]
    assert [row[4], row[6], row[7]] == [f"'{name}"] * 3
    (snapshot,) = decode_load_data(encode(view).encode(), 1.0)
    assert (snapshot.name, snapshot.gpus[0].name, users(snapshot.gpus[0])) == (name, name, [name])


NAMES = st.from_regex(r"[a-z=+@-][a-z0-9._-]{1,20}", fullmatch=True)
CARDS = st.lists(
    st.builds(
        lambda load, people: busy_gpu(
            0, *(process(user, pid=pid) for pid, user in enumerate(people)), busy_percent=load
        ),
        st.none() | st.integers(0, 100).map(float),
        st.lists(NAMES.filter(lambda name: name not in ("none", "unknown")), max_size=3),
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


@given(CARDS)
def test_what_is_written_reads_back(cards: list[JudgedGpu]) -> None:
    view = fleet(node("gpu01", *cards))
    (snapshot,) = decode_load_data(encode(view).encode(), 1.0)
    assert [(gpu.busy_percent, users(gpu)) for gpu in snapshot.gpus] == [
        (card.busy_percent, [process.user for process in card.processes or ()] or [None])
        for card in cards
    ]


@given(FLEET)
def test_any_fleet_can_be_written_without_a_formula_and_read(view: FleetView) -> None:
    for row in rows(view)[1:]:
        assert len(row) == len(COLUMNS)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in row)
    decode_load_data(encode(view).encode(), 1.0)


CELLS = st.text(max_size=8) | st.integers(0, 9).map(str) | st.just("x" * 200)
LINES = st.lists(st.lists(CELLS, max_size=9).map(",".join), max_size=6)


@given(LINES, st.binary(max_size=60))
def test_any_bytes_are_refused_or_read_into_sound_reports(lines: list[str], tail: bytes) -> None:
    try:
        found = decode_load_data((HEADER + "\n".join(lines)).encode("utf-8", "replace") + tail, 1.0)
    except Undecodable:
        return
    for snapshot in found:
        (taken,) = decode_report(encode_report([encode_snapshot(snapshot)], 1.0)).snapshots
        assert taken == with_unique_uuids(snapshot)
