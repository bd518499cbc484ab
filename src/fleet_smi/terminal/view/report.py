"""`fleet-smi report`: what a range came to, in tables."""

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
    format_elapsed,
    format_percent,
    join_wrapped,
    to_local_time,
)
from fleet_smi.terminal.view.time_axis import range_label

_GAP = "  "
_GIVE_WAY = ("SHARE", "ENERGY", "COST", "IDLE-HELD", "BUSY")
_BAR_AT_MOST, _BAR_AT_LEAST = 40, 8
_NAME_AT_MOST, _NAME_AT_LEAST = 24, 8
_WELL = 0.99  # of the time, for what is not known not to matter
_BARS = "▁▂▃▄▅▆▇█"
_HEADS = {"user": "WHO", "group": "GROUP", "node": "NODE", "model": "MODEL", "gpu": "GPU"}
_Line = list[Span]


def render(
    digest: UsageReport,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local: ToLocalTime = to_local_time,
) -> str:
    """The whole report, ending in a newline; no line is wider than `columns`."""
    lines = [*_summary(digest, columns, now, local)]
    if digest.usages.rows:
        lines += [[], *_table(digest, columns)]
    if len(digest.hours) > 1:
        lines += [[], *_hours(digest.hours)]
    if digest.least_used:
        lines += [[], *_least_used(digest)]
    if digest.waste:
        lines += [[], *_waste(digest.waste, columns)]
    elif digest.waste is None:
        lines += [[], [(TOO_MANY_JOBS, "dim")]]
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _summary(told: UsageReport, columns: int, now: float, local: ToLocalTime) -> Iterator[_Line]:
    usages, total = told.usages, told.usages.total
    end = min(usages.end, now)
    # Sums are of whole hours: the one that goes on is no part of the name.
    whole = end - usages.start
    named = whole // HOUR_SECONDS * HOUR_SECONDS or whole
    words = range_label(end - named, end, now, local)
    dates = f"   {local(usages.start):%Y-%m-%d %H:%M} to {local(end):%Y-%m-%d %H:%M}"
    yield [(words[:1].upper() + words[1:], "title"), (dates, "dim")]
    yield from join_wrapped(_figures(told, total), columns)
    for gap in told.gaps:
        lasted = format_elapsed((now if gap.end is None else gap.end) - gap.start)
        for text in wrap(f"nothing was kept for {lasted}: {gap.why}", columns - 2):
            yield [("  " + text, "warn")]


def _figures(told: UsageReport, total: Sums) -> Iterator[Span]:
    taken = share_percent(total.gpu_seconds, told.observed_seconds)
    yield f"{format_hours(total.gpu_seconds)} GPU-hours in use", None
    yield f"{format_percent(taken)} of what there was", None
    yield f"{format_percent(busy_percent(total))} busy", None
    yield f"{format_hours(total.idle_seconds)} h idle-held", "held" if total.idle_seconds else None
    yield ", ".join(filter(None, [format_energy(total), format_cost(told, total)])), None
    if told.heard is not None:
        yield (
            f"nodes heard {format_coverage(told)} of the time",
            "warn" if told.heard < _WELL else "dim",
        )


def _table(told: UsageReport, columns: int) -> Iterator[_Line]:
    usages = told.usages
    heads = (_HEADS[usages.by], "GPU-HOURS", "SHARE", "BUSY", "IDLE-HELD", "ENERGY", "COST")
    rows = [(row.name, row.sums) for row in usages.rows]
    cells = [_cells(told, name or "(unknown)", sums) for name, sums in rows]
    total = _cells(told, format_count(len(rows), usages.by), usages.total)
    table = _fitting([heads, *cells, total], columns, priced=told.price is not None)
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    bar = _shrink(widths, columns)
    yield [(_joined(table[0], widths), "head")]
    most = max((sums.gpu_seconds for _, sums in rows), default=0.0)
    for texts, (_, sums) in zip(table[1:-1], rows, strict=True):
        yield [(_joined(texts, widths) + _GAP, _role(sums)), *_bar(sums, most, bar)]
    if len(rows) > 1:
        yield [(_joined(table[-1], widths), "dim")]


def _cells(told: UsageReport, name: str, sums: Sums) -> tuple[str, ...]:
    return (
        name,
        format_hours(sums.gpu_seconds),
        format_percent(share_percent(sums.gpu_seconds, told.usages.total.gpu_seconds)),
        format_percent(busy_percent(sums)),
        f"{format_hours(sums.idle_seconds)} h",
        format_energy(sums),
        format_cost(told, sums),
    )


def _role(sums: Sums) -> TextRole | None:
    return "held" if sums.idle_seconds > sums.gpu_seconds / 2 else None


def _fitting(
    table: Sequence[Sequence[str]], columns: int, *, priced: bool
) -> list[tuple[str, ...]]:
    """The columns for which there is room; a cost, only where there is a price."""
    kept = [column for column in zip(*table, strict=True) if priced or column[0] != "COST"]
    for head in _GIVE_WAY:
        widths = [max(map(display_width, column)) for column in kept]
        widths[0] = min(widths[0], _NAME_AT_LEAST)
        if sum(widths) + len(_GAP) * (len(widths) - 1) > columns:
            kept = [column for column in kept if column[0] != head]
    return list(zip(*kept, strict=True))


def _shrink(widths: list[int], columns: int) -> int:
    """Make the columns fit; returns what is left for a bar. Names give way first."""
    widths[0] = min(widths[0], _NAME_AT_MOST)
    missing = sum(widths) + len(_GAP) * (len(widths) - 1) - columns
    widths[0] -= min(max(0, missing), max(0, widths[0] - _NAME_AT_LEAST))
    left_over = columns - sum(widths) - len(_GAP) * len(widths)
    return min(_BAR_AT_MOST, left_over) if left_over >= _BAR_AT_LEAST else 0


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = cells
    put = [align_right(cell, room) for cell, room in zip(numbers, widths[1:], strict=True)]
    return _GAP.join([align_left(name, widths[0]), *put])


def _bar(sums: Sums, most: float, room: int) -> Iterator[Span]:
    """GPU-hours as a length: what was worked in, then what was only held."""
    if not most or not room:
        return
    whole = round(sums.gpu_seconds / most * room)
    idle = min(whole, round(min(1.0, sums.idle_seconds / most) * room))
    yield "█" * (whole - idle), "busy"
    yield "▒" * idle, "held"


def _hours(told: Sequence[HourOfDay]) -> Iterator[_Line]:
    """The hours of the day as one line of bars, the busiest and the quietest in words."""
    most = max(each.gpus for each in told) or 1.0
    by_hour = {each.hour: each for each in told}
    bars = "".join(_block(by_hour.get(hour), most) for hour in range(24))
    busiest = max(told, key=lambda each: each.in_use)
    quietest = min(told, key=lambda each: each.in_use)
    yield [("HOURS OF THE DAY", "head"), ("   GPUs in use, on average", "dim")]
    yield [("00 ", "dim"), (bars, "busy"), (" 23", "dim")]
    for word, each in (("busiest", busiest), ("quietest", quietest)):
        figures = f"{each.hour:02d}:00   {each.in_use:.1f} of {each.gpus:.0f} GPUs"
        yield [(f"{align_left(word, 8)}  {figures}", None)]


def _block(hour: HourOfDay | None, most: float) -> str:
    if hour is None:
        return " "
    return _BARS[min(len(_BARS) - 1, int(hour.in_use / most * len(_BARS)))]


def _least_used(told: UsageReport) -> Iterator[_Line]:
    yield [("LEAST USED GPUS", "head")]
    room = max(display_width(row.name) for row in told.least_used)
    for row in told.least_used:
        yield [
            (align_left(row.name, min(room, _NAME_AT_MOST)) + _GAP, None),
            (describe_usage(row.sums), "dim"),
        ]


def _waste(jobs: Iterable[Job], columns: int) -> Iterator[_Line]:
    yield [("MOST IDLE-HELD", "head")]
    jobs = tuple(jobs)
    idle = [f"{format_hours(job.sums.idle_seconds)} h idle" for job in jobs]
    room = min(_NAME_AT_MOST, max(display_width(job.user) for job in jobs))
    amount = max(map(display_width, idle))
    indent = room + amount + 2 * len(_GAP)
    for job, words in zip(jobs, idle, strict=True):
        said = [
            text for each in describe_advice(job) for text in wrap(each, max(1, columns - indent))
        ]
        yield [
            (align_left(job.user, room) + _GAP, "title"),
            (align_right(words, amount) + _GAP, "held"),
            ("".join(said[:1]), None),
        ]
        for text in said[1:]:
            yield [(" " * indent + text, None)]
        if job.command and " " in job.command:  # a bare "python" says nothing
            yield [(" " * indent + job.command, "dim")]
