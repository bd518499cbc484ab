"""The screen of `fleet-smi who`."""

from pathlib import Path
from typing import Any

import pytest

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.people import view_people
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import who
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.samples import HOUR, NOW, busy_gpu, fleet, node, process, utc

GOLDEN = Path(__file__).parent / "golden"


def render(
    view: FleetView, columns: int, paint: Paint, *, user: str | None = None, **options: Any
) -> str:
    return who.render(view_people(view, user), columns, paint, user=user, **options)


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_the_list_of_users_matches_the_golden_file(columns: int) -> None:
    text = render(samples.lab(), columns, Paint(enabled=False), local=utc)
    assert_matches_golden(GOLDEN / f"who-{columns}.txt", text)


def test_the_coloured_list_of_users_matches_the_golden_file() -> None:
    text = render(samples.lab(), 100, Paint(enabled=True), local=utc)
    assert_matches_golden(GOLDEN / "who-100-coloured.txt", text)


@pytest.mark.parametrize("columns", [80, 120])
def test_one_user_matches_the_golden_file(columns: int) -> None:
    text = render(samples.lab(), columns, Paint(enabled=False), user="alice", local=utc)
    assert_matches_golden(GOLDEN / f"who-alice-{columns}.txt", text)


@pytest.mark.parametrize(
    "hours, expected",
    [(1, "13:06"), (15, "yesterday 23:06"), (52, "Mon 10:06"), (24 * 30, "2026-02-02"), (1e9, "—")],
)
def test_since_is_shown_in_short_form(hours: float, expected: str) -> None:
    view = fleet(node("n", busy_gpu(0, process("alice", started_at=NOW - hours * HOUR))))
    line = render(view, 100, Paint(enabled=False), local=utc).splitlines()[1]
    assert line.endswith(f"  {expected}")


def test_no_users_and_an_unknown_user_are_messages() -> None:
    free = fleet(node("n"))
    assert render(free, 80, Paint(enabled=False)) == "Nobody holds a GPU now.\n"
    text = render(samples.lab(), 80, Paint(enabled=False), user="zed")
    assert text.startswith("zed holds no GPU now on the 5 nodes that report.\n")


def test_silent_nodes_are_listed_as_not_counted() -> None:
    text = render(samples.lab(), 80, Paint(enabled=False), local=utc)
    assert text.splitlines()[-1] == "Not counted: gpu07, which is silent."


def test_the_list_of_one_user_has_only_their_processes() -> None:
    text = render(fleet(samples.eight()), 100, Paint(enabled=False), user="carol", local=utc)
    assert "801  carol" in text
    assert "root" not in text and "alice" not in text


def test_a_past_view_is_in_the_past_tense() -> None:
    assert render(fleet(), 80, Paint(enabled=False), historical=True) == "Nobody held a GPU then.\n"
    text = render(samples.lab(), 80, Paint(enabled=False), historical=True, local=utc)
    assert "NOW" not in text and text.startswith("WHO")
