"""Properties of every screen for any fleet: it fits, and has no control characters."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.people import view_people
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import overview, status, who
from tests.terminal.fleet_strategies import FLEET, TEXT
from tests.terminal.samples import utc

COLUMNS = st.sampled_from([1, 20, 40, 60, 80, 100, 120, 160, 240])
SGR = re.compile(r"\x1b\[[\d;]*m")


def assert_fits(text: str, columns: int) -> None:
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        assert line.isprintable(), f"{line!r} holds something a terminal obeys"
        assert sum(map(_visible_width, line)) <= columns


def _visible_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0
    return 1 + (unicodedata.east_asian_width(character) in ("W", "F"))


@given(FLEET, COLUMNS, st.booleans(), st.booleans())
def test_the_table_fits_its_columns(view: FleetView, columns: int, more: bool, why: bool) -> None:
    text = status.render(
        view, columns, Paint(enabled=False), processes=more, show_reasons=why, local=utc
    )
    assert_fits(text, columns)


@given(FLEET, COLUMNS)
def test_a_coloured_table_is_the_plain_one_with_colours(view: FleetView, columns: int) -> None:
    coloured = status.render(view, columns, Paint(enabled=True), local=utc)
    assert SGR.sub("", coloured) == status.render(view, columns, Paint(enabled=False), local=utc)


@given(FLEET, COLUMNS)
def test_every_gpu_has_a_line_with_its_state(view: FleetView, columns: int) -> None:
    lines = status.render(view, max(columns, 40), Paint(enabled=False), local=utc).splitlines()
    for node in view.nodes:
        for gpu in node.gpus:
            start = re.compile(rf" *{gpu.index}  {gpu.verdict.state}\b")
            assert any(start.match(line) for line in lines)


@given(FLEET, COLUMNS)
def test_the_overview_fits_its_columns(view: FleetView, columns: int) -> None:
    assert_fits(overview.render(view, columns, Paint(enabled=False)), columns)


@given(FLEET, COLUMNS, st.none() | TEXT)
def test_the_list_of_people_fits_its_columns(
    view: FleetView, columns: int, user: str | None
) -> None:
    people = view_people(view, user)
    assert_fits(who.render(people, columns, Paint(enabled=False), user=user, local=utc), columns)
