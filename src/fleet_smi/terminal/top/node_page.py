"""One node: the table of its GPUs, the chosen one in detail, and the processes of all."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.node_summary import count_models
from fleet_smi.model.units import format_elapsed
from fleet_smi.terminal.paint import wrap
from fleet_smi.terminal.top.fleet_page import empty_text
from fleet_smi.terminal.top.frame import Frame, exactly, scrolled
from fleet_smi.terminal.top.process_pane import process_pane
from fleet_smi.terminal.top.spans import TopLine, fit, marked
from fleet_smi.terminal.top.state import chosen_gpu, chosen_item
from fleet_smi.terminal.top.view import detail
from fleet_smi.terminal.view import gpu_table
from fleet_smi.terminal.view.formatting import (
    format_models,
    format_percent,
    silence_message,
)
from fleet_smi.terminal.view.gpu_cells import GpuRow, gpu_row, instance_row

_MIN_PROCESS_ROWS = 4
_MIN_DETAIL_ROWS = 3


def node_page_lines(frame: Frame, rows: int, top: int) -> list[TopLine]:
    """Return the page in so many rows, of which the first is at `top`."""
    state, data, columns = frame.state, frame.data, frame.columns
    item = chosen_item(state, data)
    node = None if item is None else data.node_view(item.node_id)
    if node is None:
        return [[], [(f" {empty_text(data)}", "dim")]]
    lines = _heading(frame, node)
    table_rows = max(2, (rows - len(lines) - _MIN_DETAIL_ROWS - _MIN_PROCESS_ROWS))
    lines += _table(frame, node, table_rows, top + len(lines))
    if not node.gpus:
        return [*lines, *_no_gpu(node, columns)]
    lines += _detail(frame, node, rows - len(lines) - _MIN_PROCESS_ROWS)
    lines.append(detail.rule([("processes", "title")], columns))
    room = rows - len(lines)
    return [*lines, *process_pane(frame, node, None, columns, room, top + len(lines))]


def _heading(frame: Frame, node: NodeView) -> list[TopLine]:
    host = node.host
    parts = [format_models(tuple(count_models(node.gpus).items()), "no GPU")]
    if host.driver_version:
        parts.append(f"driver {host.driver_version}")
    if host.cuda_version:
        parts.append(f"CUDA {host.cuda_version}")
    if host.cpu_percent is not None:
        count = f" of {host.cpu_count}" if host.cpu_count else ""
        parts.append(f"CPU {format_percent(host.cpu_percent)}{count}")
    if host.memory_used_bytes is not None and host.memory_total_bytes:
        share = 100 * host.memory_used_bytes / host.memory_total_bytes
        parts.append(f"RAM {share:.0f}% of {host.memory_total_bytes >> 30} GiB")
    if host.booted_at is not None and node.taken_at is not None:
        parts.append(f"up {format_elapsed(node.taken_at - host.booted_at)}")
    line: TopLine = [(f" {frame.data.name(node.node_id)}", "title")]
    line += [(f" · {part}", None) for part in parts if part]
    lines = [fit(line, frame.columns)]
    if node.silent:
        text = silence_message(node, frame.now, frame.local)
        lines.append(fit([(f" {text}", "warn")], frame.columns))
    for text in (*node.warnings, *node.failures):
        lines += [
            fit([(f" {part}", "warn")], frame.columns) for part in wrap(text, frame.columns - 2)
        ]
    return lines


def _table(frame: Frame, node: NodeView, rows: int, top: int) -> list[TopLine]:
    """Return the table of `fleet-smi`, with the chosen GPU marked, as much as fits."""
    if not node.gpus:
        return []
    state, columns = frame.state, frame.columns
    is_mixed = len(count_models(node.gpus)) > 1
    table: list[tuple[str, GpuRow]] = []
    for gpu in node.gpus:
        table.append((gpu.uuid, gpu_row(gpu, show_model=is_mixed)))
        table += [(gpu.uuid, instance_row(each, at)) for at, each in enumerate(gpu.instances)]
    without, with_model = gpu_table.choose_layouts([row for _, row in table], columns - 1)
    layout = with_model if is_mixed else without
    chosen = chosen_gpu(state, node)
    uuid = None if chosen is None else chosen.uuid
    at = next((at for at, (each, _) in enumerate(table) if each == uuid), 0)
    room = max(1, rows - 1)
    first = scrolled(0, min(len(table) - 1, at + 1), room, len(table))
    lines: list[TopLine] = [fit([(" ", None), *gpu_table.header_spans(layout)], columns)]
    for each, row in table[first : first + room]:
        frame.gpu_at[top + len(lines)] = each
        is_chosen = each == uuid and row.profile is None and state.pane == "rows"
        mark = "▶" if is_chosen else " "
        spans: TopLine = [(mark, "select"), *gpu_table.row_spans(row, layout, columns - 1)]
        line = fit(spans, columns)
        lines.append(marked(line, "!") if is_chosen else line)
    return lines


def _detail(frame: Frame, node: NodeView, rows: int) -> list[TopLine]:
    gpu = chosen_gpu(frame.state, node)
    if gpu is None or rows < _MIN_DETAIL_ROWS:
        return []
    columns = frame.columns
    points = frame.data.trends.points(gpu.uuid)
    lines = [detail.heading(str(gpu.index), gpu, columns)]
    lines += detail.figure_lines(gpu, points, columns, stacked=columns < 120)
    facts = detail.fact_lines(node, gpu, columns, frame.now, frame.local)
    if rows >= len(lines) + 3:
        lines += facts
    return exactly(lines, columns, min(len(lines), rows))


def _no_gpu(node: NodeView, columns: int) -> list[TopLine]:
    return [
        fit([(f" {node.name} has no GPU that fleet-smi can see.", None)], columns),
        fit([("   fleet-smi doctor", "title"), ("   shows why, and how to fix it", None)], columns),
    ]
