"""The live screen as text, at several sizes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.fleet import FleetView
from fleet_smi.terminal.top.theme import THEMES, style_of, theme_styles
from fleet_smi.terminal.top.updates import Trouble
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.top.samples import Terminal

GOLDEN = Path(__file__).parent / "golden"


def lab() -> FleetView:
    """Nodes of several kinds: mixed states, MIG, one silent, one without a GPU."""
    silent = samples.node(
        "gpu07",
        samples.gpu(0, samples.verdict("unknown", "silent for 4 min", was="busy (alice)")),
        silent=True,
        age_seconds=240.0,
    )
    return samples.fleet(
        samples.eight(), samples.mixed(), samples.sliced(), silent, samples.node("login")
    )


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
def test_the_fleet_fits_every_size(columns: int, rows: int) -> None:
    terminal = Terminal(lab(), columns, rows)
    assert_matches_golden(GOLDEN / f"fleet-{columns}x{rows}.txt", terminal.text)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_one_node_has_all_its_gpus_and_processes(columns: int, rows: int) -> None:
    terminal = Terminal(samples.fleet(samples.eight()), columns, rows, start="node")
    assert_matches_golden(GOLDEN / f"node-{columns}x{rows}.txt", terminal.text)


@given(FLEET, st.integers(1, 240), st.integers(1, 70), st.sampled_from(["fleet", "node", "people"]))
def test_any_fleet_fits_any_size(view: FleetView, columns: int, rows: int, start: str) -> None:
    terminal = Terminal(view, columns, rows, start=start)  # type: ignore[arg-type]
    for key in ("down", "right", "tab", "end", "T", "d", "?"):
        terminal.press(key)
        assert all(line.isprintable() for line in terminal.lines)


def test_an_empty_fleet_says_why() -> None:
    assert "waiting for lab.example" in Terminal().text
    assert "No node has reported yet." in Terminal(samples.fleet()).text


def test_a_hub_that_is_away_is_named_with_the_age_of_the_data() -> None:
    terminal = Terminal(lab())
    terminal.update(Trouble("hub http://gpuhub:7070: connection refused"))
    text = "".join(["".join([t for t, _ in line]) for line in terminal.draw(65.0).lines])
    assert "data is 1 min old: hub http://gpuhub:7070: connection refused; retrying" in text
    assert "gpu01" in text


def test_every_role_of_a_screen_has_a_style_in_every_theme() -> None:
    terminal = Terminal(lab())
    terminal.press("/")
    terminal.type("mod")
    roles = {role for line in terminal.draw().lines for _, role in line}
    for theme in THEMES:
        styles = theme_styles(theme)
        assert {(role or "text").lstrip("~!") for role in roles} <= styles.keys()
        assert all(style_of(role, styles) is not None for role in roles)
