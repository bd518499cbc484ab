"""HTML tables of a report: numbers aligned right, bars drawn as coloured table cells."""

from collections.abc import Iterable, Mapping

from fleet_smi.model.fleet import State
from fleet_smi.model.history import Sums
from fleet_smi.model.usage_report import UsageReport, busy_percent, share_percent
from fleet_smi.model.usage_report_text import format_cost, format_count, format_energy, format_hours
from fleet_smi.wire.static_page.formatting import format_percent
from fleet_smi.wire.static_page.markup import Html, element
from fleet_smi.wire.usage_report_page.charts import STATE_COLOURS

_HEADS = {"user": "Person", "group": "Group", "node": "Node", "model": "Model"}
_BAR_PIXELS = 160


def usage_table(report: UsageReport) -> Html:
    """Return usage per user, group, node, model or GPU, with the total; needs at least one row."""
    usages = report.usages
    maximum = max(row.sums.gpu_seconds for row in usages.rows)
    rows = [
        _row("td", row.name or "(unknown)", _numbers(report, row.sums), _bar(row.sums, maximum))
        for row in usages.rows
    ]
    heads = _row("th", _HEADS.get(usages.by, "GPU"), _heads(report), None)
    foot = _row("th", format_count(len(rows), usages.by), _numbers(report, usages.total), None)
    return _table(heads, *rows, *([foot] if len(rows) > 1 else []))


def text_table(rows: Iterable[tuple[str, str, Html]]) -> Html:
    """Return rows of a name, a number and text."""
    return _table(
        *(
            element(
                "tr",
                element("td", element("b", name), valign="top", width="25%", class_="name"),
                element("td", number, valign="top", align="right", nowrap=""),
                element("td", text, valign="top"),
            )
            for name, number, text in rows
        )
    )


def _table(*rows: Html) -> Html:
    # Obsolete attributes on purpose: they work where a mail program drops the style sheet.
    return element("table", *rows, cellpadding=6, cellspacing=0, border=0, width="100%")


def _row(tag: str, name: str, numbers: Mapping[str, str], bar: Html | None) -> Html:
    cells = (
        element(tag, number, align="right", nowrap="", class_=f"of-{kind}")
        for kind, number in numbers.items()
    )
    return element(
        "tr",
        element(tag, name, align="left", class_="name"),
        element("td", bar, class_="bar", width=_BAR_PIXELS),
        *cells,
    )


def _heads(report: UsageReport) -> dict[str, str]:
    heads = {
        "hours": "GPU-hours",
        "share": "Share",
        "busy": "Busy",
        "idle": "Idle-held",
        "energy": "Energy",
    }
    return heads if report.price is None else heads | {"cost": "Cost"}


def _numbers(report: UsageReport, sums: Sums) -> dict[str, str]:
    numbers = {
        "hours": format_hours(sums.gpu_seconds),
        "share": format_percent(share_percent(sums.gpu_seconds, report.usages.total.gpu_seconds)),
        "busy": format_percent(busy_percent(sums)),
        "idle": f"{format_hours(sums.idle_seconds)} h",
        "energy": format_energy(sums),
    }
    return numbers if report.price is None else numbers | {"cost": format_cost(report, sums)}


def _bar(sums: Sums, maximum: float) -> Html | None:
    """Return GPU-hours as a bar: busy time, then idle-held time."""
    if not maximum:
        return None
    whole = max(1, round(sums.gpu_seconds / maximum * _BAR_PIXELS))
    idle = min(whole, round(min(1.0, sums.idle_seconds / maximum) * _BAR_PIXELS))
    parts: dict[State, int] = {"busy": whole - idle, "held": idle}
    cells = [
        element("td", width=pixels, height=10, bgcolor=STATE_COLOURS[state], class_=f"is-{state}")
        for state, pixels in parts.items()
        if pixels
    ]
    return element("table", element("tr", *cells), cellpadding=0, cellspacing=0, border=0)
