"""The screen of `fleet-smi history`."""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import STATES, FleetView, Verdict
from fleet_smi.model.history import GpuOfNode, Strip, StripRun, Strips
from fleet_smi.terminal.paint import Paint, display_width
from fleet_smi.terminal.view import history_strip, time_axis
from fleet_smi.terminal.view.history_strip import STATE_FILLS, strip_columns
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import TEXT
from tests.terminal.history_samples import gpu, lab_hour, make_strip
from tests.terminal.samples import HOUR, NOW, utc
from tests.terminal.view.test_any_fleet import COLUMNS, SGR, assert_fits

GOLDEN = Path(__file__).parent / "golden"
UNTOLD = samples.fleet()
"""An empty view of the end of a strip: the final states come from the last runs."""


def shown(strips: Strips, columns: int, *, on: bool = False, then: FleetView = UNTOLD) -> str:
    return history_strip.render(strips, then, columns, Paint(enabled=on), now=NOW, local=utc)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_last_hour_matches_the_golden_file(columns: int) -> None:
    text = shown(lab_hour(strip_columns(columns)), columns)
    assert_matches_golden(GOLDEN / f"history-{columns}.txt", text)


def test_the_coloured_hour_matches_the_golden_file() -> None:
    text = shown(lab_hour(strip_columns(100)), 100, on=True)
    assert_matches_golden(GOLDEN / "history-100-coloured.txt", text)


@pytest.mark.parametrize("hours", [24, 168, 2000])
def test_longer_ranges_match_the_golden_files(hours: int) -> None:
    text = shown(lab_hour(strip_columns(120), hours=hours), 120)
    assert_matches_golden(GOLDEN / f"history-{hours}h-120.txt", text)


def test_a_range_of_yesterday_is_labelled_and_does_not_end_with_now() -> None:
    text = shown(lab_hour(strip_columns(100), end=NOW - 24 * HOUR, hours=3), 100)
    assert text.startswith("gpu01, yesterday 11:06 to 14:06 ")
    assert " now\n" not in text


def test_a_range_that_ends_at_midnight_names_the_day() -> None:
    midnight = NOW - NOW % (24 * HOUR)
    label = time_axis.range_label(midnight - 24 * HOUR, midnight, NOW, utc)
    assert label == "yesterday 00:00 to today 00:00"


def test_an_empty_history_is_a_message() -> None:
    empty = Strips(start=NOW - HOUR, end=NOW, columns=50, rows=())
    assert shown(empty, 80) == "No history for that time, or no GPU matches.\n"


def test_a_strip_for_another_width_is_stretched() -> None:
    narrow = lab_hour(10)
    assert shown(narrow, 120) == shown(lab_hour(strip_columns(120)), 120)


def test_a_user_across_two_states_is_named_once() -> None:
    line = shown(lab_hour(strip_columns(80)), 80).splitlines()[2]
    strip, at_the_end = line.split("  0%  ")
    assert strip.count("bob") == 1 and "█▒" in strip
    assert at_the_end == "held · bob"


def test_a_user_whose_first_run_is_narrow_is_named_in_a_later_one() -> None:
    night = make_strip(
        gpu(3),
        NOW - HOUR,
        NOW,
        (2 / 45, "busy", "mei", 0, 90.0),
        (40 / 45, "held", "mei", 0, 0.0),
        (1.0, "busy", "mei", 0, 80.0),
    )
    line = shown(Strips(start=NOW - HOUR, end=NOW, columns=45, rows=(night,)), 80).splitlines()[1]
    assert " ██mei 0 ▒▒▒" in line
    assert line.count("mei") == 2  # once in the strip, once as its end


@pytest.mark.parametrize("user, named", [("mei", True), ("山田太郎", False)])
def test_a_user_with_narrow_runs_only_is_named_across_them(user: str, named: bool) -> None:
    edges = [at / 15 for at in range(1, 16)]
    turns = [(end, ("busy", "held")[at % 2], user, 0, None) for at, end in enumerate(edges)]
    strip = make_strip(gpu(3), NOW - HOUR, NOW, *turns)  # type: ignore[arg-type]
    line = shown(Strips(start=NOW - HOUR, end=NOW, columns=45, rows=(strip,)), 80).splitlines()[1]
    assert (" mei ▒▒███▒▒▒" in line) == named
    assert display_width(line) <= 80


def test_a_range_that_begins_before_the_history_says_so() -> None:
    strips = replace(lab_hour(strip_columns(80)), history_begins=NOW - HOUR / 2)
    assert "The history begins at 2026-03-04 13:36." in shown(strips, 80)


def test_the_final_state_is_that_of_the_end_and_not_of_its_column() -> None:
    strips = lab_hour(strip_columns(80))
    taken = Verdict(state="busy", reason="", since=NOW - 3)
    mei = samples.gpu(
        2, taken, uuid="GPU-gpu01-2", busy_percent=42.0, processes=(samples.process("mei"),)
    )
    then = samples.fleet(samples.node("gpu01", mei))
    assert shown(strips, 80, then=then).splitlines()[3].endswith("···   42%  busy · mei")


@pytest.mark.parametrize(
    "columns, hour, hours_ago, end",
    [
        (80, 0.5, 1, " silent 23:30"),
        (80, 0.5, 23, " silent 01:30"),
        (80, 12, 23, " silent 13:00"),
        (80, 12, 25, " silent"),  # 11:00 would be that of today
        (120, 12, 25, " silent yesterday"),
        (160, 0.5, 1, " silent yesterday 23:30"),
    ],
)
def test_a_time_of_yesterday_is_shown_without_the_day_where_there_is_no_room(
    columns: int, hour: float, hours_ago: float, end: str
) -> None:
    now = NOW - NOW % (24 * HOUR) + hour * HOUR
    start = now - 30 * HOUR
    row = make_strip(gpu(0), start, now, (1.0 - hours_ago / 30, "busy", "", 0, 50.0))
    strips = Strips(start=start, end=now, columns=45, rows=(row,))
    text = history_strip.render(strips, UNTOLD, columns, Paint(enabled=False), now=now, local=utc)
    assert text.splitlines()[1].endswith(end)


@pytest.mark.parametrize(
    "columns, user, label",
    [(6, "jonas", " jonas█ "), (6, "fatima", " ██████ "), (7, "dmitri.ivanov", " dmitr…█ ")],
)
def test_a_name_is_shown_whole_or_recognisably_truncated_or_not_at_all(
    columns: int, user: str, label: str
) -> None:
    short = make_strip(gpu(0), NOW - HOUR, NOW, (columns / 45, "busy", user, 0, None))
    assert label in shown(Strips(start=NOW - HOUR, end=NOW, columns=45, rows=(short,)), 80)


def test_labels_are_right_when_daylight_saving_time_ends() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start = datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()  # midnight there
    labels = time_axis.axis_ticks(
        start, start + 8 * HOUR, 100, lambda at: datetime.fromtimestamp(at, berlin)
    )
    text = " ".join(label for _, label in labels)
    assert text == "Oct 25 01:00 02:00 02:00 03:00 04:00 05:00 06:00"


@pytest.mark.parametrize(
    ("zone", "noon", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T12:00", ["Mar 29", "03:00", "04:00", "06:00"]),
        ("America/New_York", "2026-03-08T12:00", ["Mar 8", "03:00", "04:00", "06:00"]),
        ("Asia/Beirut", "2026-03-29T12:00", ["22:00", "01:00", "02:00", "04:00"]),
    ],
)
def test_labels_are_right_when_daylight_saving_time_begins(
    zone: str, noon: str, expected: list[str]
) -> None:
    local = ZoneInfo(zone)
    end = datetime.fromisoformat(noon).replace(tzinfo=local).timestamp()
    ticks = time_axis.axis_ticks(
        end - 24 * HOUR, end, 100, lambda at: datetime.fromtimestamp(at, local)
    )
    labels = [label for _, label in ticks]
    assert len(labels) == 12
    first = labels.index(expected[0])
    assert labels[first : first + 4] == expected


@given(st.floats(60, 4e7), st.integers(8, 300), st.integers(0, 40_000_000))
def test_labels_are_in_order_and_do_not_overlap(seconds: float, columns: int, ago: int) -> None:
    start = NOW - ago - seconds
    found = list(time_axis.axis_ticks(start, start + seconds, columns, utc))
    assert [column for column, _ in found] == sorted({column for column, _ in found})
    assert all(0 <= column < columns for column, _ in found)
    line = time_axis.axis_line(iter(found), "", columns, "now")
    assert len(line) <= columns


@st.composite
def strips(draw: st.DrawFn) -> Strips:
    """Strips with any names and consecutive runs."""
    start, end = NOW - draw(st.floats(60, 4e7)), NOW
    rows = []
    for at in range(draw(st.integers(0, 3))):
        edges = sorted(draw(st.lists(st.floats(0, 1), max_size=8, unique=True)))
        runs = [
            StripRun(
                start=start + first * (end - start),
                end=start + last * (end - start),
                state=draw(st.sampled_from(STATES)),
                user=draw(TEXT),
                others=draw(st.integers(0, 12)),
                busy_percent=draw(st.none() | st.floats(0, 100)),
            )
            for first, last in pairwise(edges)
            if draw(st.booleans())
        ]
        where = GpuOfNode(
            uuid=str(at),
            node_id=draw(TEXT),
            node=draw(TEXT),
            index=draw(st.integers(0, 2000)),
            model=draw(st.none() | TEXT),
            parent=draw(st.none() | TEXT),
        )
        rows.append(Strip(gpu=where, runs=tuple(runs)))
    columns = draw(st.integers(1, 300))
    return Strips(start=start, end=end, columns=columns, rows=tuple(rows))


@given(strips(), COLUMNS)
def test_the_strip_fits_its_columns(strip_rows: Strips, columns: int) -> None:
    assert_fits(shown(strip_rows, columns), columns)


@given(strips(), COLUMNS)
def test_a_coloured_strip_is_the_plain_one_with_colours(strip_rows: Strips, columns: int) -> None:
    assert SGR.sub("", shown(strip_rows, columns, on=True)) == shown(strip_rows, columns)


@pytest.mark.parametrize("state", STATES)
def test_the_legend_explains_every_state(state: str) -> None:
    (one,) = [each for each in STATES if each == state]
    whole = make_strip(gpu(0), NOW - HOUR, NOW, (1.0, one, "", 0, None))
    text = shown(Strips(start=NOW - HOUR, end=NOW, columns=45, rows=(whole,)), 80)
    assert STATE_FILLS[one] * 45 in text
    assert text.splitlines()[1].endswith(f"  {state}")
    assert text.splitlines()[-1] == f"{STATE_FILLS[one]} {state}"
