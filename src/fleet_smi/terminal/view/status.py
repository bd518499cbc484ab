"""Screen of `fleet-smi status`: one heading per node and one row per GPU."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, JudgedDevice, JudgedGpu, NodeView
from fleet_smi.model.node_names import unique_node_names
from fleet_smi.model.node_summary import count_models
from fleet_smi.model.units import pluralize
from fleet_smi.terminal.paint import Paint, Span, align_left, display_width, truncate, wrap
from fleet_smi.terminal.view import gpu_table
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    ToLocalTime,
    empty_fleet_message,
    join_spans,
    plain_spans,
    short_model,
    silence_message,
    spans_width,
    summary_lines,
    to_local_time,
)
from fleet_smi.terminal.view.gpu_cells import GpuRow, gpu_row, instance_row
from fleet_smi.terminal.view.gpu_table import TableLayout

_HEADING_COLUMNS = 80  # the count of free GPUs is right-aligned here, however wide the terminal
_Line = list[Span]


class _NodeTable(Struct, frozen=True):
    """A node and the rows of its table; a node with several models has a column for them."""

    node: NodeView
    rows: list[tuple[JudgedDevice, GpuRow]]
    is_mixed: bool


class _Page(Struct, frozen=True):
    """The data and options of one screen."""

    nodes: list[_NodeTable]
    names: dict[str, str]
    now: float
    columns: int
    layout: TableLayout
    mixed_layout: TableLayout
    several: bool
    processes: bool
    why: bool
    local: ToLocalTime


def render(
    view: FleetView,
    columns: int,
    paint: Paint,
    *,
    processes: bool = False,
    show_reasons: bool = False,
    local: ToLocalTime = to_local_time,
) -> str:
    """Return the whole screen, ending in a newline; no line is wider than `columns`."""
    nodes = [_node_table(node) for node in view.nodes]
    # One layout over all nodes, so that the columns of their tables line up.
    rows = [row for table in nodes for _, row in table.rows]
    layout, mixed_layout = gpu_table.choose_layouts(rows, columns)
    page = _Page(
        nodes=nodes,
        names=unique_node_names(view.nodes),
        now=view.taken_at,
        columns=columns,
        layout=layout,
        mixed_layout=mixed_layout,
        several=len(view.nodes) > 1,
        processes=processes,
        why=show_reasons,
        local=local,
    )
    return "".join(paint.line(line, columns) + "\n" for line in _lines(view, page))


def _lines(view: FleetView, page: _Page) -> Iterator[_Line]:
    if not view.nodes:
        yield [(empty_fleet_message(view), None)]
        return
    if len(view.nodes) == 1 and not view.nodes[0].silent and not view.nodes[0].gpus:
        yield from _no_gpu(view.nodes[0], page)
        return
    if page.several:
        yield from summary_lines(view, page.columns)
        yield []
    last_header: _Line = []
    for table in page.nodes:
        yield _heading(table.node, page)
        yield from _problem_lines(table.node, page)
        layout = page.mixed_layout if table.is_mixed else page.layout
        # The header is repeated only where it differs from the one above.
        if table.rows and (header := gpu_table.header_spans(layout)) != last_header:
            yield header
            last_header = header
        yield from _node_lines(table, layout, page)


def _no_gpu(node: NodeView, page: _Page) -> Iterator[_Line]:
    if any(run.fault == "slow" for run in node.runs):
        yield [(node.name, "title"), (" waits for its driver: no GPU is read yet.", None)]
        yield from _problem_lines(node, page)
        return
    yield [(node.name, "title"), (" has no GPU that fleet-smi can see.", None)]
    yield from _problem_lines(node, page)
    yield [("  fleet-smi doctor", "title"), ("   shows why, and how to fix it", None)]
    yield [("  fleet-smi demo", "title"), ("     shows a simulated fleet", None)]


def _heading(node: NodeView, page: _Page) -> _Line:
    name = page.names[node.node_id]
    if node.silent:
        silence: Span = (silence_message(node, page.now, page.local), "warn")
        models = plain_spans(_models(node, short=True)) if node.gpus else []
        return join_spans([(name, "title"), *models, silence])
    free = _free_count(node)
    for parts in _heading_variants(node, several=page.several):
        line = join_spans([(name, "title"), *plain_spans(parts)])
        if spans_width(line) + len(SEPARATOR) + display_width(free) <= page.columns:
            break
    else:
        line = [
            (truncate(name, max(8, page.columns - display_width(free) - len(SEPARATOR))), "title")
        ]
    if not free:
        return line
    if not page.several:
        return [*line, (SEPARATOR, "dim"), (free, None)]
    space = min(page.columns, _HEADING_COLUMNS) - spans_width(line) - display_width(free)
    return [*line, (" " * max(len(SEPARATOR), space), None), (free, None)]


def _heading_variants(node: NodeView, *, several: bool) -> Iterator[list[str]]:
    """Yield the parts of a heading after the name, from long to short."""
    version = node.host.driver_version
    driver = [f"driver {version}"] if version else []
    if not several:
        yield [*_models(node, short=False), *driver]
        yield [*_models(node, short=True), *driver]
    yield _models(node, short=True)
    yield []


def _models(node: NodeView, *, short: bool) -> list[str]:
    counts = count_models(node.gpus)
    if not counts:
        return ["no GPU"]
    if len(counts) > 1:
        return [pluralize(len(node.gpus), "GPU")]
    ((name, count),) = counts.items()
    return [f"{count} × {short_model(name) if short else name}"]


def _free_count(node: NodeView) -> str:
    if not node.gpus:
        return ""
    free = sum(gpu.verdict.state == "free" for gpu in node.gpus)
    text = f"{free} free of {len(node.gpus)}"
    # Instances of a GPU that is free as a whole are not counted a second time.
    instances = sum(
        instance.verdict.state == "free"
        for gpu in node.gpus
        if gpu.verdict.state != "free"
        for instance in gpu.instances
    )
    return f"{text}, {pluralize(instances, 'MIG instance')} free" if instances else text


def _node_table(node: NodeView) -> _NodeTable:
    """Return each GPU and MIG instance with its row; none for a silent node."""
    is_mixed = len(count_models(node.gpus)) > 1
    rows: list[tuple[JudgedDevice, GpuRow]] = []
    for gpu in () if node.silent else node.gpus:
        rows.append((gpu, gpu_row(gpu, show_model=is_mixed)))
        rows += [(each, instance_row(each, at)) for at, each in enumerate(gpu.instances)]
    return _NodeTable(node, rows, is_mixed)


def _node_lines(table: _NodeTable, layout: TableLayout, page: _Page) -> Iterator[_Line]:
    node = table.node
    if node.silent:
        yield from (_silent_line(gpu, layout) for gpu in node.gpus)
    detail_lines = _detail_renderers(node, page)
    for device, row in table.rows:
        yield gpu_table.row_spans(row, layout, page.columns)
        for lines in detail_lines:
            yield from lines(device)


def _detail_renderers(
    node: NodeView, page: _Page
) -> list[Callable[[JudgedDevice], Iterator[_Line]]]:
    """Return the functions that render the lines below each row."""
    renderers: list[Callable[[JudgedDevice], Iterator[_Line]]] = []
    # Imported only with the flag: start-up time counts.
    if page.why:
        from fleet_smi.terminal.view.reasons import reason_lines

        renderers.append(lambda device: reason_lines(device, page.now, page.columns, page.local))
    if page.processes:
        from fleet_smi.terminal.view import process_lines

        widths = process_lines.node_process_columns(node, page.columns)
        renderers.append(lambda device: process_lines.device_process_lines(device, node, widths))
    return renderers


def _silent_line(gpu: JudgedGpu, layout: TableLayout) -> _Line:
    """Return the row of a GPU on a silent node: its last known state instead of cells."""
    verdict = gpu.verdict
    text = verdict.reason if verdict.was is None else f"was {verdict.was}"
    index = str(gpu.index).rjust(layout.widths["#"])
    return [
        (f"{index}  ", "unknown"),
        (align_left(verdict.state, 7), verdict.state),
        (f"  {text}", "unknown"),
    ]


def _problem_lines(node: NodeView, page: _Page) -> Iterator[_Line]:
    """Yield the node's warnings and failures, and what cannot be measured on it."""
    for text in (*node.warnings, *node.failures):
        for line in wrap(text, page.columns - 4):
            yield [("    " + line, "warn")]
    for text in node.limits:
        for line in wrap(text, page.columns - 4):
            yield [("    " + line, "dim")]
