"""Screen of `fleet-smi report`: usage totals, busy hours, least used GPUs and idle jobs."""

from collections.abc import Iterable, Iterator, Sequence

from fleet_smi.model.history import Job, Sums
from fleet_smi.model.usage_report import (
    HOUR_SECONDS,
    HourOfDay,
    UsageReport,
    busy_percent,
    share_percent,
)
from fleet_smi.model.usage_report_text import (
    TOO_MANY_JOBS,
    describe_advice,
    describe_usage,
    format_cost,
    format_count,
    format_coverage,
    format_energy,
    format_hours,
    range_notes,
)
from fleet_smi.terminal.paint import (
    Paint,
    Span,
    TextRole,
    align_left,
    align_right,
    display_width,
    wrap,
)
from fleet_smi.terminal.view.formatting import (
    ToLocalTime,
    format_percent,
    join_wrapped,
    to_local_time,
)
from fleet_smi.terminal.view.time_axis import range_label

_GAP = "  "
_DROPPABLE = ("SHARE", "ENERGY", "COST", "IDLE-HELD", "BUSY")
_MAX_BAR_WIDTH, _MIN_BAR_WIDTH = 40, 8
_MAX_NAME_WIDTH, _MIN_NAME_WIDTH = 24, 8
_GOOD_COVERAGE = 0.99  # below this the missing reports deserve a warning colour
_BARS = "▁▂▃▄▅▆▇█"
_HEADS = {"user": "WHO", "group": "GROUP", "node": "NODE", "model": "MODEL", "gpu": "GPU"}
_Line = list[Span]


def render(
    report: UsageReport,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local: ToLocalTime = to_local_time,
) -> str:
    """Return the whole report, ending in a newline; no line is wider than `columns`."""
    lines = [*_summary(report, columns, now, local)]
    if report.usages.rows:
        lines += [[], *_table(report, columns)]
    if len(report.hours) > 1:
        lines += [[], *_hours_of_day(report.hours)]
    if report.least_used:
        lines += [[], *_least_used(report)]
    if report.waste:
        lines += [[], *_idle_jobs(report.waste, columns)]
    elif report.waste is None:
        lines += [[], [(TOO_MANY_JOBS, "dim")]]
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _summary(report: UsageReport, columns: int, now: float, local: ToLocalTime) -> Iterator[_Line]:
    usages, total = report.usages, report.usages.total
    end = min(usages.end, now)
    # Totals are of whole hours; the current hour, which is not over, is not part of the title.
    length = end - usages.start
    whole_hours = length // HOUR_SECONDS * HOUR_SECONDS or length
    label = range_label(end - whole_hours, end, now, local)
    dates = f"   {local(usages.start):%Y-%m-%d %H:%M} to {local(end):%Y-%m-%d %H:%M}"
    yield [(label[:1].upper() + label[1:], "title"), (dates, "dim")]
    yield from join_wrapped(_totals(report, total), columns)
    for note in range_notes(report, now, local):
        for text in wrap(note, columns - 2):
            yield [("  " + text, "warn")]


def _totals(report: UsageReport, total: Sums) -> Iterator[Span]:
    in_use = share_percent(total.gpu_seconds, report.observed_seconds)
    yield f"{format_hours(total.gpu_seconds)} GPU-hours in use", None
    yield f"{format_percent(in_use)} of capacity", None
    yield f"{format_percent(busy_percent(total))} busy", None
    yield f"{format_hours(total.idle_seconds)} h idle-held", "held" if total.idle_seconds else None
    yield ", ".join(filter(None, [format_energy(total), format_cost(report, total)])), None
    if report.heard is not None:
        yield (
            f"nodes reporting {format_coverage(report)} of the time",
            "warn" if report.heard < _GOOD_COVERAGE else "dim",
        )


def _table(report: UsageReport, columns: int) -> Iterator[_Line]:
    usages = report.usages
    heads = (_HEADS[usages.by], "GPU-HOURS", "SHARE", "BUSY", "IDLE-HELD", "ENERGY", "COST")
    rows = [(row.name, row.sums) for row in usages.rows]
    cells = [_cells(report, name or "(unknown)", sums) for name, sums in rows]
    total = _cells(report, format_count(len(rows), usages.by), usages.total)
    table = _fit_columns([heads, *cells, total], columns, priced=report.price is not None)
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    bar_width = _shrink(widths, columns)
    yield [(_join(table[0], widths), "head")]
    largest = max((sums.gpu_seconds for _, sums in rows), default=0.0)
    for texts, (_, sums) in zip(table[1:-1], rows, strict=True):
        yield [(_join(texts, widths) + _GAP, _role(sums)), *_bar(sums, largest, bar_width)]
    if len(rows) > 1:
        yield [(_join(table[-1], widths), "dim")]


def _cells(report: UsageReport, name: str, sums: Sums) -> tuple[str, ...]:
    return (
        name,
        format_hours(sums.gpu_seconds),
        format_percent(share_percent(sums.gpu_seconds, report.usages.total.gpu_seconds)),
        format_percent(busy_percent(sums)),
        f"{format_hours(sums.idle_seconds)} h",
        format_energy(sums),
        format_cost(report, sums),
    )


def _role(sums: Sums) -> TextRole | None:
    return "held" if sums.idle_seconds > sums.gpu_seconds / 2 else None


def _fit_columns(
    table: Sequence[Sequence[str]], columns: int, *, priced: bool
) -> list[tuple[str, ...]]:
    """Drop columns until the table fits; COST is shown only if there is a price."""
    shown = [column for column in zip(*table, strict=True) if priced or column[0] != "COST"]
    for head in _DROPPABLE:
        widths = [max(map(display_width, column)) for column in shown]
        # Names count at their minimum here: `_shrink` shortens them before a column is lost.
        widths[0] = min(widths[0], _MIN_NAME_WIDTH)
        if sum(widths) + len(_GAP) * (len(widths) - 1) > columns:
            shown = [column for column in shown if column[0] != head]
    return list(zip(*shown, strict=True))


def _shrink(widths: list[int], columns: int) -> int:
    """Shorten the names until the columns fit; return the width left for a bar, or 0."""
    widths[0] = min(widths[0], _MAX_NAME_WIDTH)
    missing = sum(widths) + len(_GAP) * (len(widths) - 1) - columns
    widths[0] -= min(max(0, missing), max(0, widths[0] - _MIN_NAME_WIDTH))
    left_over = columns - sum(widths) - len(_GAP) * len(widths)
    return min(_MAX_BAR_WIDTH, left_over) if left_over >= _MIN_BAR_WIDTH else 0


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    aligned = [align_right(cell, width) for cell, width in zip(numbers, widths[1:], strict=True)]
    return _GAP.join([align_left(name, widths[0]), *aligned])


def _bar(sums: Sums, largest: float, width: int) -> Iterator[Span]:
    """Yield GPU-hours as a bar: first the busy part, then the idle-held part."""
    if not largest or not width:
        return
    total = round(sums.gpu_seconds / largest * width)
    # Rounded by themselves, the idle part could come out longer than the whole bar.
    idle = min(total, round(min(1.0, sums.idle_seconds / largest) * width))
    yield "█" * (total - idle), "busy"
    yield "▒" * idle, "held"


def _hours_of_day(hours: Sequence[HourOfDay]) -> Iterator[_Line]:
    """Yield a bar chart of the hours of the day, and the busiest and quietest hour."""
    max_gpus = max(hour.gpus for hour in hours) or 1.0
    by_hour = {hour.hour: hour for hour in hours}
    bars = "".join(_block(by_hour.get(number), max_gpus) for number in range(24))
    busiest = max(hours, key=lambda hour: hour.in_use)
    quietest = min(hours, key=lambda hour: hour.in_use)
    yield [("HOURS OF THE DAY", "head"), ("   GPUs in use, on average", "dim")]
    yield [("00 ", "dim"), (bars, "busy"), (" 23", "dim")]
    for label, hour in (("busiest", busiest), ("quietest", quietest)):
        text = f"{hour.hour:02d}:00   {hour.in_use:.1f} of {hour.gpus:.0f} GPUs"
        yield [(f"{align_left(label, 8)}  {text}", None)]


def _block(hour: HourOfDay | None, max_gpus: float) -> str:
    if hour is None:
        return " "
    return _BARS[min(len(_BARS) - 1, int(hour.in_use / max_gpus * len(_BARS)))]


def _least_used(report: UsageReport) -> Iterator[_Line]:
    yield [("LEAST USED GPUS", "head")]
    width = max(display_width(row.name) for row in report.least_used)
    for row in report.least_used:
        yield [
            (align_left(row.name, min(width, _MAX_NAME_WIDTH)) + _GAP, None),
            (describe_usage(row.sums), "dim"),
        ]


def _idle_jobs(jobs: Iterable[Job], columns: int) -> Iterator[_Line]:
    yield [("MOST IDLE-HELD", "head")]
    jobs = tuple(jobs)
    idle_texts = [f"{format_hours(job.sums.idle_seconds)} h idle" for job in jobs]
    user_width = min(_MAX_NAME_WIDTH, max(display_width(job.user) for job in jobs))
    idle_width = max(map(display_width, idle_texts))
    indent = user_width + idle_width + 2 * len(_GAP)
    for job, idle in zip(jobs, idle_texts, strict=True):
        advice = [
            line for text in describe_advice(job) for line in wrap(text, max(1, columns - indent))
        ]
        yield [
            (align_left(job.user, user_width) + _GAP, "title"),
            (align_right(idle, idle_width) + _GAP, "held"),
            ("".join(advice[:1]), None),
        ]
        for text in advice[1:]:
            yield [(" " * indent + text, None)]
        if job.command and " " in job.command:  # a bare "python" says nothing
            yield [(" " * indent + job.command, "dim")]
