"""The words that several views share: models, percentages, moments."""

from collections.abc import Callable, Iterable
from datetime import datetime

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.units import format_duration
from fleet_smi.terminal.paint import Span, display_width

UNKNOWN = "—"
SEPARATOR = " · "
ToLocalTime = Callable[[float], datetime]

# The order in which states are told: what is wanted first, what is missing last.
STATE_ORDER: tuple[State, ...] = ("free", "leased", "held", "busy", "ghost", "broken", "unknown")
_FOREVER = 4e9  # seconds: no clock of ours is beyond the year 2096, no uptime as long
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Words of a model's name that tell the maker, the form or the kind of memory.
_MAKERS = {"nvidia", "amd", "intel", "geforce", "tesla", "quadro", "instinct", "radeon", "graphics"}
_FORMS = ("sxm", "pci", "oam", "hbm")


def short_model(name: str) -> str:
    """A model as people say it: "NVIDIA H100 80GB HBM3" is an "H100 80GB"."""
    words = name.replace("-", " ").replace("(R)", "").replace("(TM)", "").split()
    short = [word for word in words if not _is_filler(word.lower())]
    return " ".join(short) or name


def _is_filler(word: str) -> bool:
    return word in _MAKERS or word.startswith(_FORMS)


def count_models(gpus: Iterable[JudgedGpu]) -> dict[str, int]:
    """How many there are of each model.

    A GPU that does not tell its name (a lost one) is counted with the others where they
    are all alike, and is a "GPU" beside several models.
    """
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = gpu.name or "GPU"
        counts[name] = counts.get(name, 0) + 1
    if len(counts) == 2 and "GPU" in counts:
        unnamed = counts.pop("GPU")
        return {name: count + unnamed for name, count in counts.items()}
    return counts


def pluralize(count: int, noun: str) -> str:
    """ "1 process", "3 processes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def format_percent(value: float | None) -> str:
    """A share as a whole number; unknown is a dash."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def format_elapsed(seconds: float | None) -> str:
    """A length of time, or a dash where it is unknown or no number a clock could give."""
    if seconds is None or not abs(seconds) < _FOREVER:
        return UNKNOWN
    return format_duration(seconds)


def to_local_time(at: float) -> datetime:
    """The moment on the clock of whoever reads the screen."""
    return datetime.fromtimestamp(at).astimezone()


def format_moment(at: float, now: float, local: ToLocalTime) -> str:
    """A moment as short as it can be understood: "09:12", "yesterday 22:40", "Mon 09:12"."""
    if not abs(at) < _FOREVER:
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


def summary_lines(view: FleetView, columns: int) -> list[list[Span]]:
    """The strip of truth in one line, or in as many as a narrow terminal needs."""
    counts = {state: getattr(view.summary, state) for state in STATE_ORDER}
    told: list[Span] = [(f"{counts[each]} {each}", each) for each in STATE_ORDER if counts[each]]
    if not counts["free"]:
        told.insert(0, ("0 free", "unknown"))
    lines = join_wrapped(told, columns)
    coverage: Span = (_coverage(view), "dim")
    room = columns - spans_width(lines[-1]) - display_width(coverage[0])
    if room < 2:
        return [*lines, [coverage]]
    return [*lines[:-1], [*lines[-1], (" " * min(5, room), None), coverage]]


def join_wrapped(parts: Iterable[Span], columns: int) -> list[list[Span]]:
    """Parts with dots between them, in as many lines as they need."""
    lines: list[list[Span]] = [[]]
    for part in parts:
        if lines[-1] and spans_width(lines[-1]) + len(SEPARATOR) + display_width(part[0]) > columns:
            lines.append([])
        lines[-1] += [(SEPARATOR, "dim"), part] if lines[-1] else [part]
    return lines


def _coverage(view: FleetView) -> str:
    of = f"{view.summary.nodes_reporting} of {pluralize(view.summary.nodes, 'node')}"
    ages = [node.age_seconds or 0.0 for node in view.nodes if not node.silent]
    return f"{of}{SEPARATOR}{format_elapsed(max(ages))} ago" if ages else of


def join_spans(parts: Iterable[Span]) -> list[Span]:
    """Parts with dots between them."""
    return [span for part in parts for span in ((SEPARATOR, "dim"), part)][1:]


def plain_spans(texts: Iterable[str]) -> list[Span]:
    """Texts as spans without a colour."""
    return [(text, None) for text in texts]


def spans_width(spans: Iterable[Span]) -> int:
    """The columns that spans take together."""
    return sum(display_width(text) for text, _ in spans)


def empty_fleet_message(view: FleetView) -> str:
    """Why there is no node to show."""
    return "No GPU matches." if view.summary.nodes else "No node has reported yet."


def silence_message(node: NodeView, now: float, local: ToLocalTime) -> str:
    """That a node is silent, for how long, when it was last heard, and through what."""
    if node.age_seconds is None:
        return f"NEVER HEARD{_via(node, ' (', ')')}"
    words = f"SILENT for {format_elapsed(node.age_seconds)}"
    if not 0 <= now - node.age_seconds < _FOREVER:
        return words
    seen = local(now - node.age_seconds)
    day = "" if seen.date() == local(now).date() else f"{seen:%Y-%m-%d} "
    return f"{words} (last seen {day}{seen:%H:%M:%S}{_via(node, ', ')})"


def _via(node: NodeView, before: str, after: str = "") -> str:
    return "" if node.via is None else f"{before}via {node.via}{after}"
