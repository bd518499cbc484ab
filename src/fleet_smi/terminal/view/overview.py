"""Screen of `fleet-smi -o`: one row per node and one character per GPU."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from fleet_smi.model.fleet import FleetView, State
from fleet_smi.model.node_summary import FleetOverview, NodeSummary, UserCount, view_overview
from fleet_smi.model.units import UNKNOWN, format_elapsed
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, truncate
from fleet_smi.terminal.view.formatting import (
    STATE_ORDER,
    empty_fleet_message,
    format_models,
    format_percent,
    summary_lines,
)

STATE_MARKS: dict[State, str] = {
    "free": "·",
    "leased": "L",
    "busy": "B",
    "held": "h",
    "ghost": "g",
    "broken": "!",
    "unknown": "?",
}
_GAP = "  "
_MAX_MARKS = 16
_MAX_NAME_WIDTH, _MAX_MODELS_WIDTH = 24, 20
_NUMBER_WIDTH = 4  # of FREE, UTIL and MEM
_MIN_WIDTH = 8
_MIN_WHO_WIDTH = 24


class _Widths(NamedTuple):
    """Widths of the columns that adapt to the fleet and the terminal."""

    name: int
    models: int
    marks: int

    @property
    def fixed(self) -> int:
        """The width of all columns but the last."""
        return self.name + self.models + self.marks + 3 * _NUMBER_WIDTH + 6 * len(_GAP)


def render(view: FleetView | FleetOverview, columns: int, paint: Paint) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`."""
    fleet = view_overview(view) if isinstance(view, FleetView) else view
    if not fleet.nodes:
        return paint.line([(empty_fleet_message(fleet), None)], columns) + "\n"
    widths = _widths(fleet.nodes, columns)
    head = [*summary_lines(fleet, columns), [], _header(fleet.nodes, widths)]
    lines = [paint.line(line, columns) for line in head]
    fixed = widths.fixed
    for node in fleet.nodes:
        who = _who(node, fleet.age_seconds(node))
        width = fixed + sum([display_width(text) for text, _ in who])
        lines.append(paint.line([*_cells(node, widths), *who], columns, width))
    lines += [paint.line(line, columns) for line in ([], _legend(fleet))]
    return "".join([line + "\n" for line in lines])


def _widths(nodes: Iterable[NodeSummary], columns: int) -> _Widths:
    """Return the widths; on a narrow terminal the models are shortened first, then the names."""
    name = min(_MAX_NAME_WIDTH, max(4, *(display_width(node.name) for node in nodes)))
    models = min(_MAX_MODELS_WIDTH, max(4, *(display_width(_models(node)) for node in nodes)))
    marks = min(_MAX_MARKS, max(1, *(len(node.states) for node in nodes)))
    rest = marks + 3 * _NUMBER_WIDTH + 6 * len(_GAP) + _MIN_WHO_WIDTH
    missing = max(0, name + models + rest - columns)
    cut = min(missing, max(0, models - _MIN_WIDTH))
    models, missing = models - cut, missing - cut
    return _Widths(name - min(missing, max(0, name - _MIN_WIDTH)), models, marks)


def _header(nodes: Iterable[NodeSummary], widths: _Widths) -> list[Span]:
    last = str(max(0, *(len(node.states) - 1 for node in nodes)))
    marks = widths.marks
    # The column of marks is headed by the first and the last GPU index.
    ruler = "0" + last.rjust(marks - 1) if marks > len(last) else last[:marks]
    texts = [
        align_left("NODE", widths.name),
        align_left("GPUS", widths.models),
        align_left(ruler, marks),
        *(align_right(head, _NUMBER_WIDTH) for head in ("FREE", "UTIL", "MEM")),
        "WHO",
    ]
    return [(_GAP.join(texts), "head")]


def _cells(node: NodeSummary, widths: _Widths) -> list[Span]:
    numbers = [align_right(text, _NUMBER_WIDTH) for text in _numbers(node)]
    return [
        (align_left(node.name, widths.name) + _GAP, "unknown" if node.silent else "title"),
        (align_left(_models(node), widths.models) + _GAP, "unknown" if node.silent else None),
        *_marks(node.states, widths.marks),
        (_GAP + _GAP.join(numbers) + _GAP, None),
    ]


def _models(node: NodeSummary) -> str:
    return format_models(tuple(node.models.items()), "no GPU")


# Cached: the nodes of a large fleet have few different rows of states.
@lru_cache(maxsize=4096)
def _marks(states: tuple[State, ...], width: int) -> tuple[Span, ...]:
    shown = states if len(states) <= width else states[: width - 1]
    spans: list[Span] = [(STATE_MARKS[state], state) for state in shown]
    if len(shown) < len(states):
        spans.append(("…", "dim"))
    return *spans, (" " * (width - len(spans)), None)


def _numbers(node: NodeSummary) -> tuple[str, str, str]:
    # The last figures of a silent node are old, and 0 free would be a claim.
    if node.silent or not node.states:
        return UNKNOWN, UNKNOWN, UNKNOWN
    free = node.states.count("free")
    return str(free), format_percent(node.busy_percent), format_percent(node.memory_percent)


def _who(node: NodeSummary, age_seconds: float | None) -> list[Span]:
    if node.silent:
        silent = age_seconds is not None and f"silent {format_elapsed(age_seconds)}"
        return [("; ".join([silent or "never reported", *node.warnings]), "warn")]
    problems = "; ".join([*node.warnings, *node.failures])
    names = ", ".join([_user_count(count) for count in node.users])
    return [(problems, "warn"), ("; " if problems and names else "", None), (names, None)]


@lru_cache(maxsize=4096)
def _user_count(count: UserCount) -> str:
    text = f"{truncate(count.user, 20)} {count.gpus}"
    if not count.idle:
        return text
    return f"{text} idle" if count.idle == count.gpus else f"{text} ({count.idle} idle)"


def _legend(view: FleetOverview) -> list[Span]:
    """Explain the marks that occur on this screen."""
    shown = {state for node in view.nodes for state in node.states}
    spans: list[Span] = []
    for state in STATE_ORDER:
        if state in shown:
            spans += [(STATE_MARKS[state], state), (f" {state}   ", "dim")]
    return spans
