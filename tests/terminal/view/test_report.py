"""The screen of `fleet-smi report`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.history import Gap, Sums, Usage, Usages
from fleet_smi.model.usage_report import Price, UsageReport
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view.history_banner import banner
from fleet_smi.terminal.view.report import render
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import TEXT
from tests.terminal.history_samples import lab_week
from tests.terminal.samples import HOUR, NOW, utc
from tests.terminal.view.test_any_fleet import COLUMNS, SGR, assert_fits

GOLDEN = Path(__file__).parent / "golden"
EURO = Price(per_kwh=0.31, currency="EUR")


def shown(report: UsageReport, columns: int, *, on: bool = False) -> str:
    return render(report, columns, Paint(enabled=on), now=NOW, local=utc)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_week_matches_the_golden_file(columns: int) -> None:
    assert_matches_golden(GOLDEN / f"report-{columns}.txt", shown(lab_week(EURO), columns))


def test_the_coloured_week_matches_the_golden_file() -> None:
    assert_matches_golden(GOLDEN / "report-100-coloured.txt", shown(lab_week(), 100, on=True))


@pytest.mark.parametrize("by, head", [("group", "GROUP"), ("node", "NODE"), ("model", "MODEL")])
def test_the_first_column_names_the_grouping(by: str, head: str) -> None:
    assert f"\n{head} " in shown(lab_week(by=by), 80)


def test_an_empty_report_has_only_totals() -> None:
    nothing = Usages(start=NOW - HOUR, end=NOW, by="user", rows=(), total=Sums(), by_state={})
    report = UsageReport(usages=nothing, hours=(), least_used=(), waste=(), heard=None)
    assert shown(report, 80).splitlines()[1:] == [
        "0 GPU-hours in use · — of capacity · — busy · 0 h idle-held · 0.0 kWh"
    ]


def test_too_many_jobs_are_a_message() -> None:
    text = shown(replace(lab_week(), waste=None), 80)
    assert text.endswith("\nIdle jobs: too many to list; choose a shorter range.\n")


def test_what_is_missing_from_the_figures_is_said() -> None:
    report = lab_week()
    start = report.usages.start
    usages = replace(
        report.usages,
        history_begins=start,
        unwritten=Gap(start=NOW - 90, end=None, why="the disk is full"),
    )
    gaps = (
        Gap(start=0.0, end=start + 2 * HOUR, why="history.db was empty"),
        Gap(start=start + HOUR, end=start + HOUR, why="the clock was set back by 1 h"),
    )
    text = shown(replace(report, usages=usages, gaps=gaps), 120)
    assert [line.strip() for line in text.splitlines() if line.startswith("  ")][:4] == [
        "the history begins at 2026-02-25 14:00: nothing before that is counted",
        "no history was recorded for 2 h: history.db was empty",
        "the clock was set back by 1 h",
        "the figures are old: nothing after 14:04:41 is counted yet: the disk is full",
    ]


FIGURE = st.floats(0, 1e12)


@pytest.mark.parametrize("minutes, called", [(24 * 60 + 25, "Last 24 h"), (20, "Last 20 min")])
def test_the_current_hour_is_not_part_of_the_title(minutes: int, called: str) -> None:
    report = lab_week()
    usages = replace(report.usages, start=NOW - minutes * 60, end=NOW)
    assert shown(replace(report, usages=usages), 80).startswith(f"{called}  ")


def test_an_idle_job_is_listed_with_its_advice() -> None:
    report = lab_week()
    places = ("gpu01:0", "gpu01:1", "gpu02:0")
    jobs = tuple(replace(job, places=places, advice=("idle",)) for job in report.waste or ())
    assert "  idle (gpu01:0, gpu01:1 and 1 more)\n" in shown(replace(report, waste=jobs), 80)


@given(
    st.lists(st.builds(Usage, name=TEXT, sums=st.builds(
        Sums, gpu_seconds=FIGURE, measured_seconds=FIGURE, busy_seconds=FIGURE,
        idle_seconds=FIGURE, energy_joules=FIGURE,
    )), max_size=4).map(tuple),
    TEXT,
    COLUMNS,
)  # fmt: skip
def test_any_report_fits_its_columns(rows: tuple[Usage, ...], name: str, columns: int) -> None:
    report = lab_week(Price(per_kwh=0.3, currency=name))
    jobs = tuple(
        replace(job, user=name, command=name, advice=(name,)) for job in report.waste or ()
    )
    least = tuple(replace(each, name=name) for each in report.least_used)
    report = replace(report, usages=replace(report.usages, rows=rows), waste=jobs, least_used=least)
    assert_fits(shown(report, columns), columns)
    assert SGR.sub("", shown(report, columns, on=True)) == shown(report, columns)


def test_the_history_banner_has_the_time_and_the_reporting_nodes() -> None:
    view = samples.lab()
    text = banner(view, 100, Paint(enabled=False), now=NOW + 17 * HOUR, local=utc)
    assert text.startswith("As of yesterday 14:06 · 2026-03-04 14:06:11 · 17 h ago · ")
    assert text.endswith(" · 5 of 6 nodes were reporting\n\n")
    narrow = banner(view, 80, Paint(enabled=False), now=NOW + 17 * HOUR, local=utc)
    assert narrow == "As of 2026-03-04 14:06 · 17 h ago · 5 of 6 nodes were reporting\n\n"
    assert_fits(banner(view, 20, Paint(enabled=False), now=NOW, local=utc), 20)
