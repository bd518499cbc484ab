"""The screen of `fleet-smi -o`."""

from pathlib import Path

import pytest

from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import overview
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.samples import busy_gpu, fleet, gpu, node, process, verdict

GOLDEN = Path(__file__).parent / "golden"


def line(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_the_overview_matches_the_golden_file(columns: int) -> None:
    text = overview.render(samples.lab(), columns, Paint(enabled=False))
    assert_matches_golden(GOLDEN / f"overview-{columns}.txt", text)


def test_the_coloured_overview_matches_the_golden_file() -> None:
    text = overview.render(samples.lab(), 100, Paint(enabled=True))
    assert_matches_golden(GOLDEN / "overview-100-coloured.txt", text)


def test_each_gpu_is_one_character_in_index_order() -> None:
    assert " BBh·gB!· " in line(overview.render(samples.lab(), 100, Paint(enabled=False)), "gpu01")


def test_a_silent_node_has_no_numbers() -> None:
    cells = line(overview.render(samples.lab(), 100, Paint(enabled=False)), "gpu07").split()
    assert cells[-7:] == ["????", "—", "—", "—", "silent", "4", "min"]


def test_the_idle_gpus_of_a_user_are_counted() -> None:
    held = gpu(1, verdict("held", idle_seconds=900.0), 9.0, processes=(process("bob"),))
    some = overview.render(
        fleet(node("n", busy_gpu(0, process("bob")), held)), 100, Paint(enabled=False)
    )
    every = overview.render(fleet(node("n", held)), 100, Paint(enabled=False))
    assert line(some, "n ").endswith("bob 2 (1 idle)")
    assert line(every, "n ").endswith("bob 1 idle")


def test_more_gpus_than_fit_end_in_an_ellipsis() -> None:
    many = node("big", *(gpu(at, verdict("free")) for at in range(40)))
    assert "·" * 15 + "…" in overview.render(fleet(many), 100, Paint(enabled=False))


def test_the_characters_are_explained_on_the_screen() -> None:
    text = overview.render(fleet(samples.eight()), 100, Paint(enabled=False))
    assert text.splitlines()[-1] == "· free   h held   B busy   g ghost   ! broken"
