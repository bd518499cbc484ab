"""`fleet-smi nodes`: every machine of the fleet, how it is heard, and what is odd about it."""

from collections.abc import Sequence

from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.node_names import unique_node_names
from fleet_smi.terminal.paint import Paint, Span, align_left, display_width, wrap
from fleet_smi.terminal.view.formatting import (
    UNKNOWN,
    count_models,
    empty_fleet_message,
    format_elapsed,
    pluralize,
    short_model,
    summary_lines,
)

_HEADS = ("NODE", "HEARD", "VIA", "GPUS", "DRIVER", "AGENT", "LABELS", "ID")
_GAP = "  "
_NAME_AT_MOST, _GPUS_AT_MOST, _LABELS_AT_MOST = 24, 24, 32
_Line = list[Span]


def render(view: FleetView, columns: int, paint: Paint) -> str:
    """The whole screen, ending in a newline; no line is wider than `columns`."""
    if not view.nodes:
        return paint.line([(empty_fleet_message(view), None)], columns) + "\n"
    names = unique_node_names(view.nodes)
    table = [_cells(node, names[node.node_id]) for node in view.nodes]
    widths = _widths(table, columns)
    lines: list[_Line] = [*summary_lines(view, columns), [], [(_joined(_HEADS, widths), "head")]]
    for node, cells in zip(view.nodes, table, strict=True):
        lines.append([(_joined(cells, widths), "unknown" if node.silent else None)])
        lines += _oddities(node, columns)
    return "".join(paint.line(line, columns) + "\n" for line in lines)


def _cells(node: NodeView, name: str) -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    return (
        name,
        _heard(node),
        node.via or UNKNOWN,
        _kinds(node),
        node.host.driver_version or UNKNOWN,
        node.agent_version or UNKNOWN,
        labels or UNKNOWN,
        node.node_id,
    )


def _heard(node: NodeView) -> str:
    if node.age_seconds is None:
        return "never"
    return f"{'SILENT ' if node.silent else ''}{format_elapsed(node.age_seconds)} ago"


def _kinds(node: NodeView) -> str:
    counts = count_models(node.gpus)
    return ", ".join(f"{count} × {short_model(name)}" for name, count in counts.items()) or "none"


def _widths(table: Sequence[Sequence[str]], columns: int) -> list[int]:
    """As wide as the cells are; what says least leaves first where that is too much."""
    widths = [max(map(display_width, column)) for column in zip(_HEADS, *table, strict=True)]
    for head, most in (
        ("NODE", _NAME_AT_MOST),
        ("GPUS", _GPUS_AT_MOST),
        ("LABELS", _LABELS_AT_MOST),
    ):
        at = _HEADS.index(head)
        widths[at] = min(widths[at], most)
    for head in ("ID", "LABELS", "AGENT", "DRIVER"):
        if sum(room + len(_GAP) for room in widths if room) - len(_GAP) > columns:
            widths[_HEADS.index(head)] = 0
    return widths


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        align_left(cell, room) for cell, room in zip(cells, widths, strict=True) if room
    )


def _oddities(node: NodeView, columns: int) -> list[_Line]:
    missing = node.missing_reports
    lost = [f"{pluralize(missing, 'report')} of its agent never arrived"] if missing else []
    said = [*node.warnings, *lost, *node.failures]
    odd: list[_Line] = [
        [("    " + text, "warn")] for words in said for text in wrap(words, columns - 4)
    ]
    return odd + [
        [("    " + text, "dim")] for words in node.limits for text in wrap(words, columns - 4)
    ]
