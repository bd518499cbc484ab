"""Screen of `fleet-smi nodes`: one row per node, with its warnings and failures below."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from fleet_smi.model.closing import Closing, describe_closing
from fleet_smi.model.hub_problems import Problems
from fleet_smi.model.node_names import make_names_unique
from fleet_smi.model.node_summary import FleetOverview, NodeSummary
from fleet_smi.model.units import UNKNOWN, format_elapsed, pluralize
from fleet_smi.terminal.paint import Paint, Span, align_left, display_width, wrap
from fleet_smi.terminal.view.formatting import (
    empty_fleet_message,
    format_models,
    summary_lines,
)

_HEADS = ("NODE", "LAST SEEN", "VIA", "GPUS", "DRIVER", "AGENT", "LABELS", "ID")
_GAP = "  "
_MAX_WIDTHS = {"NODE": 24, "GPUS": 24, "LABELS": 32}
# Dropped on a narrow terminal, in this order; the name and the last report always stay.
_DROPPABLE = ("ID", "LABELS", "AGENT", "DRIVER")
_MAX_NAMES = 6
_Line = list[Span]


def render(
    fleet: FleetOverview,
    hub: Problems,
    columns: int,
    paint: Paint,
    closings: Sequence[Closing] = (),
) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`."""
    lines = [*_hub_problem_lines(hub, fleet.taken_at, columns), *_table(fleet, columns)]
    lines += _closing_lines(closings, fleet, columns)
    lines += _refused_lines(hub, fleet.taken_at, columns)
    return "".join([paint.line(line, columns) + "\n" for line in lines])


def _table(fleet: FleetOverview, columns: int) -> list[_Line]:
    if not fleet.nodes:
        return [[(empty_fleet_message(fleet), None)]]
    names = make_names_unique({node.node_id: node.name for node in fleet.nodes})
    behind = frozenset(fleet.behind)
    table = [_cells(fleet, node, names[node.node_id], behind) for node in fleet.nodes]
    widths = _widths(table, columns)
    lines: list[_Line] = [*summary_lines(fleet, columns), [], [(_join(_HEADS, widths), "head")]]
    has_ids = bool(widths[_HEADS.index("ID")])
    for node, cells in zip(fleet.nodes, table, strict=True):
        lines.append([(_join(cells, widths), "unknown" if node.silent else None)])
        # The id is how commands tell nodes of one name apart.
        if names[node.node_id] != node.name and not has_ids:
            lines += [[("    " + line, "dim")] for line in wrap(f"id {node.node_id}", columns - 4)]
        lines += _problem_lines(node, columns)
    return lines + _behind_lines(fleet, names, columns)


def _behind_lines(fleet: FleetOverview, names: Mapping[str, str], columns: int) -> list[_Line]:
    """Return which agents are older than the hub, and how they are upgraded."""
    if not fleet.behind:
        return []
    behind = [names[node_id] for node_id in fleet.behind if node_id in names]
    shown = ", ".join(behind[:_MAX_NAMES]) + (", …" if len(behind) > _MAX_NAMES else "")
    agents = f"{len(behind)} agents are" if len(behind) > 1 else "1 agent is"
    text = (
        f"{agents} older than the hub ({fleet.hub_version}): {shown}; run `fleet-smi join` with "
        "their names here, or `sudo fleet-smi agent upgrade` on each"
    )
    lines: list[_Line] = [[(line, "warn")] for line in wrap(text, columns)]
    return [[], *lines]


def _hub_problem_lines(hub: Problems, now: float, columns: int) -> list[_Line]:
    """Return what the hub cannot do now, followed by an empty line."""
    lines: list[_Line] = []
    for problem in hub.problems:
        since = format_elapsed(now - problem.since)
        text = f"! for {since}: {problem.message} ({problem.detail}); {problem.remedy}"
        lines += [[(line, "warn")] for line in wrap(text, columns)]
    return [*lines, []] if lines else []


def _closing_lines(closings: Sequence[Closing], fleet: FleetOverview, columns: int) -> list[_Line]:
    """Return what is closed to new work, by whom, until when and why."""
    if not closings:
        return []
    names = make_names_unique({node.node_id: node.name for node in fleet.nodes})
    lines: list[_Line] = [[], [("CLOSED", "head")]]
    for closing in closings:
        node_id = closing.node_id or ""
        what = names.get(node_id, node_id) if closing.label is None else f"label:{closing.label}"
        if closing.uuid is not None:
            what = f"{what}, {closing.uuid}"
        text = f"{what}: {describe_closing(closing, fleet.taken_at)}"
        lines += [[(line, None)] for line in wrap(text, columns)]
    return lines


def _refused_lines(hub: Problems, now: float, columns: int) -> list[_Line]:
    """Return the senders that the hub refuses, with cause and remedy."""
    if not hub.refused:
        return []
    lines: list[_Line] = [[], [("REFUSED", "head")]]
    for sender in hub.refused:
        who = sender.address if sender.name is None else f"{sender.name} ({sender.address})"
        last = format_elapsed(max(0.0, now - sender.last_at))
        times = pluralize(sender.attempts, "attempt")
        lines.append([(f"{who}, {times}, the last {last} ago", None)])
        text = "; ".join(filter(None, (sender.reason, sender.remedy)))
        lines += [[("    " + line, "warn")] for line in wrap(text, columns - 4)]
    return lines


def _cells(
    fleet: FleetOverview, node: NodeSummary, name: str, behind: AbstractSet[str]
) -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    return (
        name,
        _last_seen(node, fleet.age_seconds(node)),
        node.via or UNKNOWN,
        format_models(tuple(node.models.items()), "none"),
        node.driver_version or UNKNOWN,
        f"{node.agent_version or UNKNOWN}{' behind' if node.node_id in behind else ''}",
        labels or UNKNOWN,
        node.node_id,
    )


def _last_seen(node: NodeSummary, age_seconds: float | None) -> str:
    if age_seconds is None:
        return "never"
    return f"{'SILENT ' if node.silent else ''}{format_elapsed(age_seconds)} ago"


def _widths(table: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Return the widths of the columns; the least important are dropped (0) if all do not fit."""
    widths = [max(map(display_width, column)) for column in zip(_HEADS, *table, strict=True)]
    for head, max_width in _MAX_WIDTHS.items():
        at = _HEADS.index(head)
        widths[at] = min(widths[at], max_width)
    for head in _DROPPABLE:
        if sum(width + len(_GAP) for width in widths if width) - len(_GAP) > columns:
            widths[_HEADS.index(head)] = 0
    return widths


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        align_left(cell, width) for cell, width in zip(cells, widths, strict=True) if width
    )


def _problem_lines(node: NodeSummary, columns: int) -> list[_Line]:
    missing = node.missing_reports
    lost = [f"{pluralize(missing, 'report')} of its agent never arrived"] if missing else []
    problems = [*node.warnings, *lost, *node.failures]
    lines: list[_Line] = [
        [("    " + line, "warn")] for text in problems for line in wrap(text, columns - 4)
    ]
    return lines + [
        [("    " + line, "dim")] for text in node.limits for line in wrap(text, columns - 4)
    ]
