"""The encoder of web-gpu-monitor's `load_data.csv`."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.web_gpu_monitor.codec import COLUMNS, encode
from fleet_smi.model.fleet import STATES, FleetView, JudgedGpu, State
from fleet_smi.model.verdict.last_known import mark_all_silent
from tests.compat.seed_samples import seed_sample
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import busy_gpu, fleet, gpu, hidden_process, node, process, verdict


def rows(view: FleetView) -> list[list[str]]:
    return list(csv.reader(io.StringIO(encode(view), newline="")))


def test_the_columns_are_those_of_the_real_program() -> None:
    header, *_ = csv.reader(io.StringIO(seed_sample("web-gpu-monitor/load_data.csv").decode()))
    assert tuple(header) == COLUMNS


def test_it_is_written_with_the_columns_and_rows_of_the_real_program() -> None:
    view = fleet(
        node(
            "gpu01", gpu(0, verdict("free")), busy_gpu(1, process("bob"), memory_busy_percent=41.4)
        ),
        node("gpu02", busy_gpu(0, process("eve", pid=1), process("eve", pid=2), hidden_process())),
    )
    header, *body = rows(view)
    assert tuple(header) == COLUMNS
    assert [row[0] for row in body] == ["0", "1", "0"]
    assert body[1][1:4] == ["96", "41", "1"]
    assert [row[-1] for row in body] == ["", "bob", "eve, eve, Zombie"]


def test_lines_end_as_in_the_real_program() -> None:
    assert b"\r" not in seed_sample("web-gpu-monitor/load_data.csv")
    text = encode(fleet(node("gpu01", busy_gpu(0, process("bob")))))
    assert text.endswith(",gpu01,bob\n")
    assert "\r" not in text


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
def test_a_name_that_looks_like_a_formula_is_quoted(name: str) -> None:
    view = fleet(node(name, busy_gpu(0, process(name), name=name)))
    (row,) = rows(view)[1:]
    assert [row[4], row[6], row[7]] == [f"'{name}"] * 3


NAMES = st.from_regex(r"[a-z][a-z0-9._-]{1,20}", fullmatch=True)
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
def test_loads_and_users_of_any_cards_are_in_their_rows(cards: list[JudgedGpu]) -> None:
    found = [(row[1], row[-1]) for row in rows(fleet(node("gpu01", *cards)))[1:]]
    assert found == [
        (
            "" if card.busy_percent is None else f"{card.busy_percent:.0f}",
            ", ".join(str(one.user) for one in card.processes or ()) or "Zombie",
        )
        for card in cards
    ]


@given(FLEET)
def test_any_fleet_can_be_written_without_a_formula(view: FleetView) -> None:
    for row in rows(view)[1:]:
        assert len(row) == len(COLUMNS)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in row)
