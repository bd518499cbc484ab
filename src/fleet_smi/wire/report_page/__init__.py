"""A report as one HTML page to keep or to mail: its style and charts inside, no script.

Mail programs drop style, and some of them drawings: tables, words and plain attributes tell
all there is to tell without either.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from fleet_smi.model.history import Job, Usage
from fleet_smi.model.units import format_duration
from fleet_smi.model.usage_report import UsageReport, busy_percent, share_percent
from fleet_smi.model.usage_report_text import (
    TOO_MANY_JOBS,
    describe_advice,
    describe_usage,
    format_cost,
    format_coverage,
    format_energy,
    format_hours,
    group_label,
)
from fleet_smi.wire.report_page import charts
from fleet_smi.wire.report_page.tables import text_table, usage_table
from fleet_smi.wire.static_page import content_security_policy
from fleet_smi.wire.static_page.formatting import format_percent
from fleet_smi.wire.static_page.markup import Html, element, fragment

__all__ = ["render_report"]

_COUNTED = (
    "Only time in which a node was heard is counted. A GPU that several people share is counted "
    "in equal parts, and a slice of one as its part. Busy is the mean load while somebody had "
    "it; idle-held is time in which somebody had a GPU and nothing ran on it."
)


def render_report(
    digest: UsageReport, *, style: str, to_local_time: Callable[[float], datetime], now: float
) -> str:
    """The report as it is at `now`."""
    end = min(digest.usages.end, now)
    start = to_local_time(digest.usages.start)
    span = f"{start:%Y-%m-%d %H:%M} to {to_local_time(end):%Y-%m-%d %H:%M %Z}".strip()
    body = element(
        "body",
        element("h1", "GPU report"),
        element("p", element("b", span), f", {format_duration(end - digest.usages.start)}"),
        _figures(digest),
        *_gaps(digest, now),
        *_sections(digest),
        element("p", element("small", _COUNTED)),
        element(
            "p", element("small", f"Made by fleet-smi at {to_local_time(now):%Y-%m-%d %H:%M %Z}.")
        ),
        bgcolor=charts.BACKGROUND,
        text=charts.FOREGROUND,
    )
    return f"<!doctype html>\n{element('html', _head(span, style), body, lang='en')}\n"


def _head(span: str, style: str) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"GPU report, {span}"),
        element(
            "meta", http_equiv="Content-Security-Policy", content=content_security_policy(style)
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("style", Html(style)),
    )


def _figures(told: UsageReport) -> Html:
    """The five figures that matter most, side by side."""
    total = told.usages.total
    taken = share_percent(total.gpu_seconds, told.observed_seconds)
    idle = share_percent(total.idle_seconds, total.gpu_seconds)
    listening = format_percent(None) if told.heard is None else format_coverage(told)
    cells = (
        _figure(
            format_hours(total.gpu_seconds),
            "GPU-hours in use",
            f"{format_percent(taken)} of capacity",
        ),
        _figure(format_percent(busy_percent(total)), "busy while in use", "mean load"),
        _figure(
            f"{format_hours(total.idle_seconds)} h",
            "idle-held",
            f"{format_percent(idle)} of what was in use",
        ),
        _figure(format_energy(total), "energy", format_cost(told, total) or "no price is set"),
        _figure(listening, "of the time", "nodes were heard"),
    )
    return element("table", element("tr", *cells), cellpadding=10, class_="figures")


def _figure(number: str, words: str, more: str) -> Html:
    return element(
        "td",
        element("b", number, class_="number"),
        element("div", words),
        element("div", more, class_="quiet"),
        valign="top",
    )


def _gaps(told: UsageReport, now: float) -> Iterator[Html]:
    for gap in told.gaps:
        lasted = format_duration((now if gap.end is None else gap.end) - gap.start)
        yield element("p", element("b", f"Nothing was kept for {lasted}: "), gap.why)


def _sections(told: UsageReport) -> Iterator[Html]:
    usages = told.usages
    if usages.by_state:
        yield _section("All GPU-hours", charts.states_chart(usages.by_state))
    if any(row.daily for row in usages.rows):
        yield _section("GPU-hours a day", charts.daily_chart(_daily(usages.rows), usages.start))
    if usages.rows:
        yield _section(f"GPU-hours by {group_label(usages.by)}", usage_table(told))
    if len(told.hours) > 1:
        yield _section("GPUs in use by hour of the day", charts.hourly_chart(told.hours))
    if told.waste:
        yield _section("Most idle-held", text_table(_waste(told.waste)))
    elif told.waste is None:
        yield element("p", TOO_MANY_JOBS)
    if told.least_used:
        yield _section("Least used GPUs", text_table(_least_used(told)))


def _section(heading: str, *content: Html) -> Html:
    return element("section", element("h2", heading), *content)


def _daily(rows: tuple[Usage, ...]) -> list[float]:
    """What all came to together on each day."""
    days = max(len(row.daily) for row in rows)
    return [sum(row.daily[at] for row in rows if at < len(row.daily)) for at in range(days)]


def _waste(jobs: Iterable[Job]) -> Iterator[tuple[str, str, Html]]:
    for job in jobs:
        said = "; ".join(describe_advice(job))
        telling = job.command and " " in job.command  # a bare "python" says nothing
        command = element("div", job.command, class_="command") if telling else None
        yield job.user, f"{format_hours(job.sums.idle_seconds)} h idle", fragment(said, command)


def _least_used(told: UsageReport) -> Iterator[tuple[str, str, Html]]:
    for row in told.least_used:
        yield row.name, "", fragment(describe_usage(row.sums))
