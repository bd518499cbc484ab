"""The screen of `fleet-smi free -v`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.select import find_offer
from fleet_smi.terminal.paint import Paint, display_width
from fleet_smi.terminal.view import free
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import NOW, fleet, gpu, node, utc, verdict

GOLDEN = Path(__file__).parent / "golden"


def screen(
    view: FleetView, columns: int = 100, *, here: str | None = None, on: bool = False
) -> str:
    found = find_offer(view, GpuRequest())
    return free.render(found, columns, Paint(enabled=on), now=NOW, local_node_id=here, local=utc)


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_the_offer_matches_the_golden_file(columns: int) -> None:
    view = fleet(*samples.lab().nodes, samples.sliced())
    assert_matches_golden(GOLDEN / f"free-{columns}.txt", screen(view, columns))


def test_the_coloured_offer_matches_the_golden_file() -> None:
    assert_matches_golden(GOLDEN / "free-100-coloured.txt", screen(samples.lab(), on=True))


def test_the_ssh_command_is_shown_for_other_nodes_only() -> None:
    view = fleet(samples.eight())
    assert "ssh gpu01" in screen(view)
    assert "ssh" not in screen(view, here="id-gpu01")


@pytest.mark.parametrize(
    "name, way",
    [("gpu01", "ssh gpu01"), ("-oX", "ssh -- -oX"), ("x; reboot", "ssh 'x; reboot'")],
)
def test_the_ssh_command_quotes_any_node_name(name: str, way: str) -> None:
    assert way in screen(fleet(node(name, gpu(0, verdict("free")))))


def test_since_is_shown_only_if_known() -> None:
    view = fleet(
        node("n", gpu(0, verdict("free")), gpu(1, verdict("free", since=NOW), uuid="other"))
    )
    first, second = screen(view).splitlines()[1:3]
    assert "free since 09:06 (5 h)" in first
    assert "since" not in second


def test_a_silent_node_is_one_line_and_is_not_offered() -> None:
    text = screen(fleet(samples.silent()))
    assert text.splitlines() == [
        "OFFERED",
        "nothing",
        "NOT OFFERED",
        "gpu07:*   node silent for 4 min",
    ]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_whole_reason_of_a_rejection_is_shown(columns: int) -> None:
    words = screen(samples.lab(), columns).split()
    for refusal in find_offer(samples.lab(), GpuRequest()).refused:
        assert set(refusal.words.split()) <= set(words)


@given(FLEET, st.sampled_from([1, 20, 40, 80, 120, 160]))
def test_any_offer_fits_its_columns(view: FleetView, columns: int) -> None:
    for line in screen(view, columns)[:-1].split("\n"):
        assert line.isprintable()
        assert display_width(line) <= columns
