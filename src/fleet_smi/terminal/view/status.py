"""`fleet-smi`: every node, one line a GPU."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, JudgedDevice, JudgedGpu, NodeView
from fleet_smi.model.node_names import unique_node_names
from fleet_smi.terminal.paint import Paint, Span, align_left, display_width, truncate, wrap
from fleet_smi.terminal.view import gpu_table
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    ToLocalTime,
    count_models,
    empty_fleet_message,
    join_spans,
    plain_spans,
    pluralize,
    short_model,
    silence_message,
    spans_width,
    summary_lines,
    to_local_time,
)
from fleet_smi.terminal.view.gpu_cells import GpuRow, gpu_row, instance_row
from fleet_smi.terminal.view.gpu_table import TableLayout

_RULER = 80
_Line = list[Span]


class _Shown(Struct, frozen=True):
    """A node and the rows of its table."""

    node: NodeView
    rows: list[tuple[JudgedDevice, GpuRow]]


class _Page(Struct, frozen=True):
    """What every part of the screen needs to know."""

    nodes: list[_Shown]
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
    """The whole screen, ending in a newline; no line is wider than `columns`."""
    nodes = [_Shown(node, _rows(node, columns)) for node in view.nodes]
    every = [row for shown in nodes for _, row in shown.rows]
    page = _Page(
        nodes=nodes,
        names=unique_node_names(view.nodes),
        now=view.taken_at,
        columns=columns,
        layout=gpu_table.choose_layout(every, columns, show_model=False),
        mixed_layout=gpu_table.choose_layout(every, columns, show_model=True),
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
    heads: _Line = []
    for shown in page.nodes:
        yield _heading(shown.node, page)
        yield from _remarks(shown.node, page)
        layout = page.mixed_layout if _is_mixed(shown.node) else page.layout
        if shown.rows and (head := gpu_table.header_spans(layout)) != heads:
            yield head
            heads = head
        yield from _node(shown, layout, page)


def _no_gpu(node: NodeView, page: _Page) -> Iterator[_Line]:
    yield [(node.name, "title"), (" has no GPU that fleet-smi can see.", None)]
    yield from _remarks(node, page)
    yield [("  fleet-smi doctor", "title"), ("   tells why, and what to do", None)]
    yield [("  fleet-smi demo", "title"), ("     shows what it looks like with GPUs", None)]


def _heading(node: NodeView, page: _Page) -> _Line:
    name = page.names[node.node_id]
    if node.silent:
        told: _Line = [(silence_message(node, page.now, page.local), "warn")]
        kinds = plain_spans(_models(node, short=True)) if node.gpus else []
        return join_spans([(name, "title"), *kinds, *told])
    free = _free_words(node)
    for parts in _wordings(node, several=page.several):
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
    space = min(page.columns, _RULER) - spans_width(line) - display_width(free)
    return [*line, (" " * max(len(SEPARATOR), space), None), (free, None)]


def _wordings(node: NodeView, *, several: bool) -> Iterator[list[str]]:
    """What the heading says of a node, in ever fewer words."""
    driver = node.host.driver_version
    driver_words = [f"driver {driver}"] if driver else []
    if not several:
        yield [*_models(node, short=False), *driver_words]
        yield [*_models(node, short=True), *driver_words]
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


def _free_words(node: NodeView) -> str:
    if not node.gpus:
        return ""
    free = sum(gpu.verdict.state == "free" for gpu in node.gpus)
    words = f"{free} free of {len(node.gpus)}"
    slices = sum(
        instance.verdict.state == "free"
        for gpu in node.gpus
        if gpu.verdict.state != "free"
        for instance in gpu.instances
    )
    return f"{words}, {pluralize(slices, 'MIG instance')} free" if slices else words


def _rows(node: NodeView, columns: int) -> list[tuple[JudgedDevice, GpuRow]]:
    """Each GPU and instance with its cells; a silent node has none to show."""
    if node.silent:
        return []
    names: tuple[str, ...] = gpu_table.DEFAULT_COLUMNS
    if columns >= gpu_table.WIDE_COLUMNS:
        names += gpu_table.OPTIONAL_COLUMNS
    if _is_mixed(node):
        names += ("MODEL",)
    rows: list[tuple[JudgedDevice, GpuRow]] = []
    for gpu in node.gpus:
        rows.append((gpu, gpu_row(gpu, names)))
        rows += [(each, instance_row(each, at)) for at, each in enumerate(gpu.instances)]
    return rows


def _is_mixed(node: NodeView) -> bool:
    return len(count_models(node.gpus)) > 1


def _node(shown: _Shown, layout: TableLayout, page: _Page) -> Iterator[_Line]:
    node = shown.node
    if node.silent:
        yield from (_silent_line(gpu, layout) for gpu in node.gpus)
    below = _below(node, page)
    for part, row in shown.rows:
        yield gpu_table.row_spans(row, layout, page.columns)
        for more in below:
            yield from more(part)


def _below(node: NodeView, page: _Page) -> list[Callable[[JudgedDevice], Iterator[_Line]]]:
    """What is shown under each row. Imported only when asked for: start-up time counts."""
    below: list[Callable[[JudgedDevice], Iterator[_Line]]] = []
    if page.why:
        from fleet_smi.terminal.view.reasons import reason_lines

        below.append(lambda part: reason_lines(part, page.now, page.columns, page.local))
    if page.processes:
        from fleet_smi.terminal.view import process_lines

        places = process_lines.node_process_columns(node)
        below.append(lambda part: process_lines.device_process_lines(part, node, places))
    return below


def _silent_line(gpu: JudgedGpu, layout: TableLayout) -> _Line:
    """A GPU of a silent node: the heading says how silent, the row what it was."""
    verdict = gpu.verdict
    words = verdict.reason if verdict.was is None else f"was {verdict.was}"
    index = str(gpu.index).rjust(layout.widths["#"])
    return [
        (f"{index}  ", "unknown"),
        (align_left(verdict.state, 7), verdict.state),
        (f"  {words}", "unknown"),
    ]


def _remarks(node: NodeView, page: _Page) -> Iterator[_Line]:
    """What is odd about a node, and what cannot be told of it."""
    for words in (*node.warnings, *node.failures):
        for text in wrap(words, page.columns - 4):
            yield [("    " + text, "warn")]
    for words in node.limits:
        for text in wrap(words, page.columns - 4):
            yield [("    " + text, "dim")]
