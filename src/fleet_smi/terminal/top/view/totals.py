"""The strip of totals: GPUs by state, nodes, age of the data, power; and the bar of all GPUs."""

from fleet_smi.model.fleet import Summary
from fleet_smi.model.units import format_elapsed, pluralize
from fleet_smi.terminal.paint import align_left
from fleet_smi.terminal.top.spans import TopLine, fit, width_of
from fleet_smi.terminal.top.view.cells import MARKS
from fleet_smi.terminal.view.formatting import STATE_ORDER

_KILOWATT = 1000.0


def totals_line(
    summary: Summary, source: str, age_seconds: float | None, watts: float, columns: int
) -> TopLine:
    """Return the first line of the screen: the longest form that fits."""
    right_variants = _counts(summary, watts)
    left_variants = _sources(summary, source, age_seconds)
    for left in left_variants:
        for right in right_variants:
            if width_of(left) + 2 + width_of(right) <= columns:
                space = columns - width_of(left) - width_of(right)
                return [*left, (" " * space, None), *right]
    return fit([*left_variants[-1], ("  ", None), *right_variants[-1]], columns)


def _counts(summary: Summary, watts: float) -> list[TopLine]:
    shown = [state for state in STATE_ORDER if getattr(summary, state) or state == "free"]
    power: TopLine = [(f"  {format_power(watts)} ", "dim")] if watts else [(" ", None)]
    words: TopLine = []
    marks: TopLine = []
    for state in shown:
        count = getattr(summary, state)
        # Where nothing is free, green would promise something.
        role = state if count else "unknown"
        words.append((f"{count} {state}  ", role))
        marks.append((f"{MARKS[state]}{count} ", role))
    if summary.free_instances:
        words[0] = (f"{summary.free} + {summary.free_instances} MIG free  ", "free")
    return [[*words, *power], words, [*marks, *power], marks]


def _sources(summary: Summary, source: str, age_seconds: float | None) -> list[TopLine]:
    nodes = f"{summary.nodes_reporting} of {pluralize(summary.nodes, 'node')}"
    short = f"{summary.nodes_reporting}/{summary.nodes}"
    age = "" if age_seconds is None else f" · {format_elapsed(max(0.0, age_seconds))} ago"
    one = summary.nodes == 1
    texts = [
        f" · {source}{age}" if one else f" · {source} · {nodes}{age}",
        f" · {source}" if one else f" · {nodes}{age}",
        "" if one else f" · {short}",
        "",
    ]
    return [[(" fleet-smi", "title"), (text, "dim")] for text in texts]


def format_power(watts: float) -> str:
    """Return a power: "640 W", "15.2 kW", "3.96 MW"."""
    if watts < _KILOWATT:
        return f"{watts:.0f} W"
    kilowatts = watts / _KILOWATT
    return f"{kilowatts:.1f} kW" if kilowatts < _KILOWATT else f"{kilowatts / _KILOWATT:.2f} MW"


def state_bar(summary: Summary, columns: int) -> TopLine:
    """Return all GPUs as one line, by state; a state that occurs has at least one column."""
    counts = [(state, getattr(summary, state)) for state in STATE_ORDER]
    present = [(state, count) for state, count in counts if count]
    total, room = sum([count for _, count in present]), columns - 2
    if not present or room < len(present):
        return fit([("", None)], columns)
    widths = [max(1, count * room // total) for _, count in present]
    _spread(widths, room)
    line: TopLine = [(" ", None)]
    line += [("━" * width, state) for (state, _), width in zip(present, widths, strict=True)]
    return fit(line, columns)


def _spread(widths: list[int], room: int) -> None:
    """Adjust the widest of these widths, so that all of them fill the room."""
    widest = widths.index(max(widths))
    widths[widest] = max(1, widths[widest] + room - sum(widths))


def notice_line(text: str, columns: int) -> TopLine:
    """Return a line that tells of a problem or a moment of the past, across the screen."""
    return [(align_left(f" {text}", columns), "notice")]
