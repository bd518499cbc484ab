"""Screen of `fleet-smi -o`: one row per node and one character per GPU."""

from collections.abc import Iterable
from typing import NamedTuple

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.people import HIDDEN_USER, Holding, holdings_in_view
from fleet_smi.model.units import UNKNOWN, format_elapsed
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, truncate
from fleet_smi.terminal.view.formatting import (
    STATE_ORDER,
    count_models,
    empty_fleet_message,
    format_percent,
    short_model,
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


def render(view: FleetView, columns: int, paint: Paint) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`."""
    if not view.nodes:
        return paint.line([(empty_fleet_message(view), None)], columns) + "\n"
    holdings: dict[str, list[Holding]] = {}
    for holding in holdings_in_view(view):
        holdings.setdefault(holding.node.node_id, []).append(holding)
    widths = _widths(view.nodes, columns)
    lines = [*summary_lines(view, columns), [], _header(view.nodes, widths)]
    lines += [_line(node, holdings.get(node.node_id, []), widths) for node in view.nodes]
    lines += [[], _legend(view)]
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _widths(nodes: Iterable[NodeView], columns: int) -> _Widths:
    """Return the widths; on a narrow terminal the models are shortened first, then the names."""
    name = min(_MAX_NAME_WIDTH, max(4, *(display_width(node.name) for node in nodes)))
    models = min(_MAX_MODELS_WIDTH, max(4, *(display_width(_models(node)) for node in nodes)))
    marks = min(_MAX_MARKS, max(1, *(len(node.gpus) for node in nodes)))
    rest = marks + 3 * _NUMBER_WIDTH + 6 * len(_GAP) + _MIN_WHO_WIDTH
    missing = max(0, name + models + rest - columns)
    cut = min(missing, max(0, models - _MIN_WIDTH))
    models, missing = models - cut, missing - cut
    return _Widths(name - min(missing, max(0, name - _MIN_WIDTH)), models, marks)


def _header(nodes: Iterable[NodeView], widths: _Widths) -> list[Span]:
    last = str(max(0, *(len(node.gpus) - 1 for node in nodes)))
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


def _line(node: NodeView, holdings: list[Holding], widths: _Widths) -> list[Span]:
    spans: list[Span] = [
        (align_left(node.name, widths.name) + _GAP, "unknown" if node.silent else "title"),
        (align_left(_models(node), widths.models) + _GAP, "unknown" if node.silent else None),
        *_marks(node.gpus, widths.marks),
        (_GAP, None),
    ]
    numbers = (align_right(text, _NUMBER_WIDTH) for text in _numbers(node))
    return [*spans, (_GAP.join(numbers) + _GAP, None), *_who(node, holdings)]


def _models(node: NodeView) -> str:
    counts = count_models(node.gpus)
    return ", ".join(f"{count} × {short_model(name)}" for name, count in counts.items()) or "no GPU"


def _marks(gpus: tuple[JudgedGpu, ...], width: int) -> list[Span]:
    shown = gpus if len(gpus) <= width else gpus[: width - 1]
    spans: list[Span] = [(STATE_MARKS[gpu.verdict.state], gpu.verdict.state) for gpu in shown]
    if len(shown) < len(gpus):
        spans.append(("…", "dim"))
    return [*spans, (" " * (width - len(spans)), None)]


def _numbers(node: NodeView) -> tuple[str, str, str]:
    # The last figures of a silent node are old, and 0 free would be a claim.
    if node.silent or not node.gpus:
        return UNKNOWN, UNKNOWN, UNKNOWN
    free = sum(gpu.verdict.state == "free" for gpu in node.gpus)
    busy = [gpu.busy_percent for gpu in node.gpus if gpu.busy_percent is not None]
    return (
        str(free),
        format_percent(sum(busy) / len(busy) if busy else None),
        format_percent(_memory_percent(node.gpus)),
    )


def _memory_percent(gpus: Iterable[JudgedGpu]) -> float | None:
    """Return the percentage of memory in use, over the GPUs that report used and total."""
    used = total = 0
    for gpu in gpus:
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
            used += gpu.memory_used_bytes
            total += gpu.memory_total_bytes
    return 100 * used / total if total else None


def _who(node: NodeView, holdings: list[Holding]) -> list[Span]:
    if node.silent:
        age = node.age_seconds
        text = "never reported" if age is None else f"silent {format_elapsed(age)}"
        return [("; ".join([text, *node.warnings]), "warn")]
    problems = "; ".join([*node.warnings, *node.failures])
    by_user: dict[str, list[Holding]] = {}
    for holding in holdings:
        by_user.setdefault(holding.user, []).append(holding)
    # Most GPUs first; processes of hidden owners last.
    ordered = sorted(
        by_user.items(), key=lambda item: (item[0] == HIDDEN_USER, -len(item[1]), item[0])
    )
    names = ", ".join(_user_count(user, held) for user, held in ordered)
    return [(problems, "warn"), ("; " if problems and names else "", None), (names, None)]


def _user_count(user: str, holdings: list[Holding]) -> str:
    idle = sum(holding.idle for holding in holdings)
    text = f"{truncate(user, 20)} {len(holdings)}"
    if not idle:
        return text
    return f"{text} idle" if idle == len(holdings) else f"{text} ({idle} idle)"


def _legend(view: FleetView) -> list[Span]:
    """Explain the marks that occur on this screen."""
    shown = {gpu.verdict.state for node in view.nodes for gpu in node.gpus}
    spans: list[Span] = []
    for state in STATE_ORDER:
        if state in shown:
            spans += [(STATE_MARKS[state], state), (f" {state}   ", "dim")]
    return spans
