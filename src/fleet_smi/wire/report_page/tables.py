"""The tables of a report: numbers at the right, lengths drawn as coloured cells."""

from collections.abc import Iterable, Mapping

from fleet_smi.model.fleet import State
from fleet_smi.model.history import Sums
from fleet_smi.model.usage_report import UsageReport, busy_percent, share_percent
from fleet_smi.model.usage_report_text import format_cost, format_count, format_energy, format_hours
from fleet_smi.wire.report_page.charts import STATE_COLOURS
from fleet_smi.wire.static_page.formatting import format_percent
from fleet_smi.wire.static_page.markup import Html, element

_HEADS = {"user": "Person", "group": "Group", "node": "Node", "model": "Model"}
_BAR_PIXELS = 160


def usage_table(digest: UsageReport) -> Html:
    """Who or what had how much, and what came of it."""
    usages = digest.usages
    most = max(row.sums.gpu_seconds for row in usages.rows)
    rows = [
        _row("td", row.name or "(unknown)", _numbers(digest, row.sums), _bar(row.sums, most))
        for row in usages.rows
    ]
    heads = _row("th", _HEADS.get(usages.by, "GPU"), _heads(digest), None)
    foot = _row("th", format_count(len(rows), usages.by), _numbers(digest, usages.total), None)
    return _table(heads, *rows, *([foot] if len(rows) > 1 else []))


def text_table(rows: Iterable[tuple[str, str, Html]]) -> Html:
    """A name, a number and words in each row."""
    return _table(
        *(
            element(
                "tr",
                element("td", element("b", name), valign="top", width="25%", class_="name"),
                element("td", number, valign="top", align="right", nowrap=""),
                element("td", words, valign="top"),
            )
            for name, number, words in rows
        )
    )


def _table(*rows: Html) -> Html:
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


def _heads(told: UsageReport) -> dict[str, str]:
    heads = {
        "hours": "GPU-hours",
        "share": "Share",
        "busy": "Busy",
        "idle": "Idle-held",
        "energy": "Energy",
    }
    return heads if told.price is None else heads | {"cost": "Cost"}


def _numbers(told: UsageReport, sums: Sums) -> dict[str, str]:
    numbers = {
        "hours": format_hours(sums.gpu_seconds),
        "share": format_percent(share_percent(sums.gpu_seconds, told.usages.total.gpu_seconds)),
        "busy": format_percent(busy_percent(sums)),
        "idle": f"{format_hours(sums.idle_seconds)} h",
        "energy": format_energy(sums),
    }
    return numbers if told.price is None else numbers | {"cost": format_cost(told, sums)}


def _bar(sums: Sums, most: float) -> Html | None:
    """GPU-hours as a length: what was worked in, then what was only held."""
    if not most:
        return None
    whole = max(1, round(sums.gpu_seconds / most * _BAR_PIXELS))
    idle = min(whole, round(min(1.0, sums.idle_seconds / most) * _BAR_PIXELS))
    parts: dict[State, int] = {"busy": whole - idle, "held": idle}
    cells = [
        element("td", width=pixels, height=10, bgcolor=STATE_COLOURS[state], class_=f"is-{state}")
        for state, pixels in parts.items()
        if pixels
    ]
    return element("table", element("tr", *cells), cellpadding=0, cellspacing=0, border=0)
