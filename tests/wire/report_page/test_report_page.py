"""A report as a page: what it says, that nobody can break into it, that it needs no style."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from fleet_smi.model.history import Sums, Usages
from fleet_smi.model.usage_report import Price, UsageReport
from fleet_smi.wire import report_page
from fleet_smi.wire.report_page import render_report
from tests import golden
from tests.terminal.fleet_strategies import TEXT
from tests.terminal.history_samples import lab_week
from tests.terminal.samples import HOUR, NOW, utc
from tests.terminal.view.test_any_fleet import thorough
from tests.wire.static_page.test_static_page import HOSTILE, Read

STYLE = Path(report_page.__file__).with_name("style.css").read_text("utf-8")
GOLDEN = Path(__file__).parent / "golden"
EURO = Price(per_kwh=0.31, currency="EUR")
TAGS = re.compile(
    "html|head|meta|title|style|body|svg|rect|path|text|section|div|h[12]|p|ul|li|b|small"
    "|table|tr|th|td"
)


def made(told: UsageReport) -> str:
    return render_report(told, style=STYLE, to_local_time=utc, now=NOW)


def words(text: str) -> str:
    return " ".join("".join(Read(text).words).split())


def named(name: str) -> UsageReport:
    """A report in which every name is this one."""
    told = lab_week(Price(per_kwh=0.3, currency=name))
    rows = tuple(replace(row, name=name) for row in told.usages.rows)
    return replace(
        told,
        usages=replace(told.usages, rows=rows),
        waste=tuple(
            replace(job, user=name, command=name, advice=(name,)) for job in told.waste or ()
        ),
        least_used=tuple(replace(row, name=name) for row in told.least_used),
        gaps=tuple(replace(gap, why=name) for gap in told.gaps),
    )


def test_the_page_is_what_it_was() -> None:
    golden.assert_matches_golden(
        GOLDEN / "week.html", render_report(lab_week(EURO), style="", to_local_time=utc, now=NOW)
    )


@pytest.mark.parametrize(
    "told",
    [
        "2026-02-25 14:00 to 2026-03-04 14:00 UTC",
        "4,578",
        "31 % of capacity",
        "513.72 EUR",
        "92.3 %",
        "no space left on the disk",
        "priya",
        "Busiest at 12:00, 68.0 of 96 GPUs",
        "gpu07:0",
        "held 4 GPUs, used 1",
        "free 9,700 h (65 %)",
    ],
)
def test_without_style_and_drawings_the_figures_are_all_there(told: str) -> None:
    bare = re.sub("<style>.*?</style>|<svg.*?</svg>", "", made(lab_week(EURO)), flags=re.S)
    assert told in words(bare)


def test_it_runs_nothing_and_asks_for_nothing() -> None:
    text = made(lab_week(EURO))
    read = Read(text)
    assert all(TAGS.fullmatch(tag) for tag in read.tags)
    assert not [pair for pair in read.attributes if pair[0] in ("href", "src", "style")]
    (policy,) = [each for name, each in read.attributes if name == "content" and "src" in each]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in STYLE and "@import" not in STYLE


@pytest.mark.parametrize("name", HOSTILE)
def test_nobody_breaks_into_it(name: str) -> None:
    read = Read(made(named(name)))
    assert all(TAGS.fullmatch(tag) for tag in read.tags)
    assert not [attribute for attribute, _ in read.attributes if attribute.startswith("on")]


@thorough
@given(TEXT)
def test_any_name_makes_a_whole_page(name: str) -> None:
    assert all(TAGS.fullmatch(tag) for tag in Read(made(named(name))).tags)


def test_of_nothing_there_is_a_page_too() -> None:
    nothing = Usages(start=NOW - HOUR, end=NOW, by="user", rows=(), total=Sums(), by_state={})
    told = UsageReport(usages=nothing, hours=(), least_used=(), waste=(), heard=None)
    assert "no price is set" in words(made(told))
    assert "NaN" not in made(told)


def test_where_there_are_too_many_jobs_it_says_so() -> None:
    assert "too many to list" in words(made(replace(lab_week(), waste=None)))


def test_every_drawing_has_its_words() -> None:
    drawings = re.findall(r"<svg[^>]*>(<title>[^<]+</title>)?", made(lab_week()))
    keys = made(lab_week()).count('aria-hidden="true"')
    assert len([title for title in drawings if title]) == 3
    assert len([title for title in drawings if not title]) == keys
