"""The report page: its content, escaping of hostile names, and that it works without style."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from fleet_smi.model.history import Sums, Usages
from fleet_smi.model.usage_report import Price, UsageReport
from fleet_smi.wire import usage_report_page
from fleet_smi.wire.usage_report_page import render_report
from tests import golden
from tests.terminal.fleet_strategies import TEXT
from tests.terminal.history_samples import lab_week
from tests.terminal.samples import HOUR, NOW, utc
from tests.wire.static_page.test_static_page import HOSTILE, Read

STYLE = Path(usage_report_page.__file__).with_name("style.css").read_text("utf-8")
GOLDEN = Path(__file__).parent / "golden"
EURO = Price(per_kwh=0.31, currency="EUR")
TAGS = re.compile(
    "html|head|meta|title|style|body|svg|rect|path|text|section|div|h[12]|p|ul|li|b|small"
    "|table|tr|th|td"
)


def render(digest: UsageReport) -> str:
    return render_report(digest, style=STYLE, to_local_time=utc, now=NOW)


def page_text(text: str) -> str:
    return " ".join("".join(Read(text).texts).split())


def named(name: str) -> UsageReport:
    """A report in which every name is this one."""
    digest = lab_week(Price(per_kwh=0.3, currency=name))
    rows = tuple(replace(row, name=name) for row in digest.usages.rows)
    return replace(
        digest,
        usages=replace(digest.usages, rows=rows),
        waste=tuple(
            replace(job, user=name, command=name, advice=(name,)) for job in digest.waste or ()
        ),
        least_used=tuple(replace(row, name=name) for row in digest.least_used),
        gaps=tuple(replace(gap, why=name) for gap in digest.gaps),
    )


def test_the_page_matches_the_golden_file() -> None:
    golden.assert_matches_golden(
        GOLDEN / "week.html", render_report(lab_week(EURO), style="", to_local_time=utc, now=NOW)
    )


@pytest.mark.parametrize(
    "digest",
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
def test_all_figures_are_in_the_text_without_style_and_charts(digest: str) -> None:
    bare = re.sub("<style>.*?</style>|<svg.*?</svg>", "", render(lab_week(EURO)), flags=re.S)
    assert digest in page_text(bare)


def test_the_page_has_no_script_and_loads_nothing() -> None:
    text = render(lab_week(EURO))
    read = Read(text)
    assert all(TAGS.fullmatch(tag) for tag in read.tags)
    assert not [pair for pair in read.attributes if pair[0] in ("href", "src", "style")]
    (policy,) = [each for name, each in read.attributes if name == "content" and "src" in each]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in STYLE and "@import" not in STYLE


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(name: str) -> None:
    read = Read(render(named(name)))
    assert all(TAGS.fullmatch(tag) for tag in read.tags)
    assert not [attribute for attribute, _ in read.attributes if attribute.startswith("on")]


@given(TEXT)
def test_any_name_makes_a_whole_page(name: str) -> None:
    assert all(TAGS.fullmatch(tag) for tag in Read(render(named(name))).tags)


def test_an_empty_report_is_a_page_too() -> None:
    nothing = Usages(start=NOW - HOUR, end=NOW, by="user", rows=(), total=Sums(), by_state={})
    digest = UsageReport(usages=nothing, hours=(), least_used=(), waste=(), heard=None)
    assert "no price is set" in page_text(render(digest))
    assert "NaN" not in render(digest)


def test_a_truncated_list_of_jobs_is_mentioned() -> None:
    assert "too many to list" in page_text(render(replace(lab_week(), waste=None)))


def test_every_chart_has_a_title() -> None:
    drawings = re.findall(r"<svg[^>]*>(<title>[^<]+</title>)?", render(lab_week()))
    keys = render(lab_week()).count('aria-hidden="true"')
    assert len([title for title in drawings if title]) == 3
    assert len([title for title in drawings if not title]) == keys
