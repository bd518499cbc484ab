"""`fleet-smi -o`: one line a node, one character a GPU, for hundreds of nodes."""

from collections.abc import Iterable

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.people import HIDDEN_USER, Holding, holdings_in_view
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, truncate
from fleet_smi.terminal.view.formatting import (
    STATE_ORDER,
    UNKNOWN,
    count_models,
    empty_fleet_message,
    format_elapsed,
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
_CELLS_AT_MOST = 16
_NODE, _GPUS, _FREE, _UTIL, _MEM = 24, 20, 4, 4, 4
_NARROWEST = 8
_WHO_AT_LEAST = 24


def render(view: FleetView, columns: int, paint: Paint) -> str:
    """The whole screen, ending in a newline; no line is wider than `columns`."""
    if not view.nodes:
        return paint.line([(empty_fleet_message(view), None)], columns) + "\n"
    theirs: dict[str, list[Holding]] = {}
    for holding in holdings_in_view(view):
        theirs.setdefault(holding.node.node_id, []).append(holding)
    places = _places(view.nodes, columns)
    lines = [*summary_lines(view, columns), [], _head(view.nodes, places)]
    lines += [_line(node, theirs.get(node.node_id, []), places) for node in view.nodes]
    lines += [[], _legend(view)]
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _places(nodes: Iterable[NodeView], columns: int) -> tuple[int, int, int]:
    """How wide the node's name, its models and its cells are: names give way first."""
    name = min(_NODE, max(4, *(display_width(node.name) for node in nodes)))
    kind = min(_GPUS, max(4, *(display_width(_kind(node)) for node in nodes)))
    cells = min(_CELLS_AT_MOST, max(1, *(len(node.gpus) for node in nodes)))
    rest = cells + _FREE + _UTIL + _MEM + 6 * len(_GAP) + _WHO_AT_LEAST
    missing = max(0, name + kind + rest - columns)
    lost = min(missing, max(0, kind - _NARROWEST))
    kind, missing = kind - lost, missing - lost
    return name - min(missing, max(0, name - _NARROWEST)), kind, cells


def _head(nodes: Iterable[NodeView], places: tuple[int, int, int]) -> list[Span]:
    name, kind, cells = places
    last = str(max(0, *(len(node.gpus) - 1 for node in nodes)))
    ruler = "0" + last.rjust(cells - 1) if cells > len(last) else last[:cells]
    words = [align_left("NODE", name), align_left("GPUS", kind), align_left(ruler, cells)]
    numbers = [
        align_right("FREE", _FREE),
        align_right("UTIL", _UTIL),
        align_right("MEM", _MEM),
        "WHO",
    ]
    return [(_GAP.join([*words, *numbers]), "head")]


def _line(node: NodeView, theirs: list[Holding], places: tuple[int, int, int]) -> list[Span]:
    name, kind, cells = places
    spans: list[Span] = [
        (align_left(node.name, name) + _GAP, "unknown" if node.silent else "title"),
        (align_left(_kind(node), kind) + _GAP, "unknown" if node.silent else None),
        *_marks(node.gpus, cells),
        (_GAP, None),
    ]
    numbers = (
        align_right(text, at) for text, at in zip(_numbers(node), (_FREE, _UTIL, _MEM), strict=True)
    )
    return [*spans, (_GAP.join(numbers) + _GAP, None), *_who(node, theirs)]


def _kind(node: NodeView) -> str:
    counts = count_models(node.gpus)
    return ", ".join(f"{count} × {short_model(name)}" for name, count in counts.items()) or "no GPU"


def _marks(gpus: tuple[JudgedGpu, ...], cells: int) -> list[Span]:
    shown = gpus if len(gpus) <= cells else gpus[: cells - 1]
    spans: list[Span] = [(STATE_MARKS[gpu.verdict.state], gpu.verdict.state) for gpu in shown]
    if len(shown) < len(gpus):
        spans.append(("…", "dim"))
    return [*spans, (" " * (cells - len(spans)), None)]


def _numbers(node: NodeView) -> tuple[str, str, str]:
    if node.silent or not node.gpus:
        return UNKNOWN, UNKNOWN, UNKNOWN
    free = sum(gpu.verdict.state == "free" for gpu in node.gpus)
    busy = [gpu.busy_percent for gpu in node.gpus if gpu.busy_percent is not None]
    return (
        str(free),
        format_percent(sum(busy) / len(busy) if busy else None),
        format_percent(_memory(node.gpus)),
    )


def _memory(gpus: Iterable[JudgedGpu]) -> float | None:
    """The share of memory in use, over the GPUs that tell both figures."""
    used = total = 0
    for gpu in gpus:
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
            used += gpu.memory_used_bytes
            total += gpu.memory_total_bytes
    return 100 * used / total if total else None


def _who(node: NodeView, theirs: list[Holding]) -> list[Span]:
    if node.silent:
        age = node.age_seconds
        words = "never heard" if age is None else f"silent {format_elapsed(age)}"
        return [("; ".join([words, *node.warnings]), "warn")]
    wrong = "; ".join([*node.warnings, *node.failures])
    counts: dict[str, list[Holding]] = {}
    for holding in theirs:
        counts.setdefault(holding.user, []).append(holding)
    ordered = sorted(
        counts.items(), key=lambda each: (each[0] == HIDDEN_USER, -len(each[1]), each[0])
    )
    names = ", ".join(_share(user, parts) for user, parts in ordered)
    return [(wrong, "warn"), ("; " if wrong and names else "", None), (names, None)]


def _share(user: str, parts: list[Holding]) -> str:
    idle = sum(holding.idle for holding in parts)
    words = f"{truncate(user, 20)} {len(parts)}"
    if not idle:
        return words
    return f"{words} idle" if idle == len(parts) else f"{words} ({idle} idle)"


def _legend(view: FleetView) -> list[Span]:
    """What the characters on this screen mean."""
    seen = {gpu.verdict.state for node in view.nodes for gpu in node.gpus}
    spans: list[Span] = []
    for state in STATE_ORDER:
        if state in seen:
            spans += [(STATE_MARKS[state], state), (f" {state}   ", "dim")]
    return spans
