"""Formatting shared by the views: model names, percentages, times, the fleet summary."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache

from fleet_smi.model.fleet import FleetView, NodeView, State
from fleet_smi.model.node_summary import FleetOverview
from fleet_smi.model.units import MAX_SECONDS, UNKNOWN, format_elapsed, pluralize
from fleet_smi.terminal.paint import Span, display_width

SEPARATOR = " · "
ToLocalTime = Callable[[float], datetime]

# The order in which states are listed: the sought-after first, the missing last.
STATE_ORDER: tuple[State, ...] = ("free", "leased", "held", "busy", "ghost", "broken", "unknown")
# Not strftime's %a, which depends on the locale.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Words in a model's name that are dropped: vendor and brand, form factor, kind of memory.
_BRANDS = {"nvidia", "amd", "intel", "geforce", "tesla", "quadro", "instinct", "radeon", "graphics"}
_FORM_FACTORS = ("sxm", "pci", "oam", "hbm")


# Cached, as below: a fleet has few models, and a screen of it few moments, each on many rows.
@lru_cache(maxsize=1024)
def short_model(name: str) -> str:
    """Return the short name of a model: "NVIDIA H100 80GB HBM3" becomes "H100 80GB"."""
    words = name.replace("-", " ").replace("(R)", "").replace("(TM)", "").split()
    short = [word for word in words if not _is_filler(word.lower())]
    return " ".join(short) or name


@lru_cache(maxsize=1024)
def format_models(counts: tuple[tuple[str, int], ...], none: str) -> str:
    """Return how many GPUs of each model there are: "8 × H100 80GB"; `none` if there is no GPU."""
    return ", ".join([f"{count} × {short_model(name)}" for name, count in counts]) or none


def _is_filler(word: str) -> bool:
    return word in _BRANDS or word.startswith(_FORM_FACTORS)


def format_percent(value: float | None) -> str:
    """Return a percentage as a whole number; a dash if unknown."""
    return UNKNOWN if value is None else f"{value:.0f}%"


@lru_cache(maxsize=8192)
def to_local_time(at: float) -> datetime:
    """Convert seconds since 1970 to the time zone of this process."""
    return datetime.fromtimestamp(at).astimezone()


def format_moment(at: float, now: float, local: ToLocalTime) -> str:
    """Return a time in short form: "09:12", "yesterday 22:40", "Mon 09:12", "2026-11-15"."""
    if not abs(at) < MAX_SECONDS:
        return UNKNOWN
    then, today = local(at), local(now)
    days = today.date().toordinal() - then.date().toordinal()
    if days == 0:
        return f"{then:%H:%M}"
    if days == 1:
        return f"yesterday {then:%H:%M}"
    if 1 < days < 7:
        return f"{_DAYS[then.weekday()]} {then:%H:%M}"
    return f"{then:%Y-%m-%d}"


def summary_lines(view: FleetView | FleetOverview, columns: int) -> list[list[Span]]:
    """Return the counts by state and of reporting nodes, in as many lines as needed."""
    counts = {state: getattr(view.summary, state) for state in STATE_ORDER}
    parts: list[Span] = [
        (f"{counts[state]} {state}", state) for state in STATE_ORDER if counts[state]
    ]
    if not counts["free"]:
        # The one count that is shown at zero: it is what people look for.
        parts.insert(0, ("0 free", "unknown"))
    if view.summary.free_instances:
        free, style = parts[0]
        parts[0] = (f"{free} + {view.summary.free_instances} MIG", style)
    lines = join_wrapped(parts, columns)
    coverage: Span = (_coverage(view), "dim")
    space = columns - spans_width(lines[-1]) - display_width(coverage[0])
    if space < 2:
        return [*lines, [coverage]]
    return [*lines[:-1], [*lines[-1], (" " * min(5, space), None), coverage]]


def join_wrapped(parts: Iterable[Span], columns: int) -> list[list[Span]]:
    """Join parts with dots, in as many lines as needed."""
    lines: list[list[Span]] = [[]]
    for part in parts:
        if lines[-1] and spans_width(lines[-1]) + len(SEPARATOR) + display_width(part[0]) > columns:
            lines.append([])
        lines[-1] += [(SEPARATOR, "dim"), part] if lines[-1] else [part]
    return lines


def _coverage(view: FleetView | FleetOverview) -> str:
    nodes = f"{view.summary.nodes_reporting} of {pluralize(view.summary.nodes, 'node')}"
    # The oldest of the live reports: the summary is only as current as that.
    if isinstance(view, FleetView):
        ages = [node.age_seconds or 0.0 for node in view.nodes if not node.silent]
    else:
        ages = [view.age_seconds(node) or 0.0 for node in view.nodes if not node.silent]
    return f"{nodes}{SEPARATOR}{format_elapsed(max(ages))} ago" if ages else nodes


def join_spans(parts: Iterable[Span]) -> list[Span]:
    """Join parts with dots."""
    return [span for part in parts for span in ((SEPARATOR, "dim"), part)][1:]


def plain_spans(texts: Iterable[str]) -> list[Span]:
    """Return the texts as spans without colour."""
    return [(text, None) for text in texts]


def spans_width(spans: Iterable[Span]) -> int:
    """Return the display width of the spans."""
    return sum(display_width(text) for text, _ in spans)


def empty_fleet_message(view: FleetView | FleetOverview) -> str:
    """Return why there is no node to show."""
    return "No GPU matches." if view.summary.nodes else "No node has reported yet."


def silence_message(node: NodeView, now: float, local: ToLocalTime) -> str:
    """Return for how long a node is silent, when it was last seen, and by which transport."""
    if node.age_seconds is None:
        return f"NEVER REPORTED{_via(node, ' (', ')')}"
    text = f"SILENT for {format_elapsed(node.age_seconds)}"
    if not 0 <= now - node.age_seconds < MAX_SECONDS:
        return text
    seen = local(now - node.age_seconds)
    day = "" if seen.date() == local(now).date() else f"{seen:%Y-%m-%d} "
    return f"{text} (last seen {day}{seen:%H:%M:%S}{_via(node, ', ')})"


def _via(node: NodeView, before: str, after: str = "") -> str:
    return "" if node.via is None else f"{before}via {node.via}{after}"
