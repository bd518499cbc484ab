"""The rows of the fleet: one node per row, one cell per GPU, as on the page."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.node_summary import count_models
from fleet_smi.terminal.paint import align_left, align_right, display_width
from fleet_smi.terminal.top.nodes import NodeItem
from fleet_smi.terminal.top.spans import TopLine, TopSpan, fit, marked
from fleet_smi.terminal.top.view.cells import cell_lines, short_elapsed
from fleet_smi.terminal.view.formatting import format_percent, short_model

_MIN_NAME, _MAX_NAME = 6, 24
_MIN_CELL, _GOOD_CELL, _MAX_CELL = 2, 9, 18
_HOST_WIDTH = 10  # CPU and RAM
_MODEL_WIDTH = 10
_MODEL_COLUMNS = 110


class NodeRowLayout(Struct, frozen=True):
    """The widths of a row; `model` and `host` are 0 where they do not fit."""

    columns: int
    name: int
    model: int
    cell: int
    cells: int
    host: int
    rows: int
    """Screen rows of one node: 1 or 2."""

    @property
    def first_cell(self) -> int:
        """The column where the cells begin."""
        return 1 + self.name + 1 + (self.model + 1 if self.model else 0)

    def cell_at(self, column: int) -> int | None:
        """Return which cell is at a column of the screen."""
        at = (column - self.first_cell) // (self.cell + 1)
        return at if column >= self.first_cell and at < self.cells else None


def choose_layout(columns: int, names: Iterable[str], gpus: int, *, rows: int) -> NodeRowLayout:
    """Return the widest cells that leave room for names, and for more where there is more."""
    longest = max([display_width(name) for name in names], default=_MIN_NAME)
    # The model is in the second row below the name, or in a column of its own.
    name = max(_MIN_NAME if rows == 1 else _MODEL_WIDTH, min(_MAX_NAME, longest))
    gpus = max(1, gpus)
    model = _MODEL_WIDTH if columns >= _MODEL_COLUMNS and rows == 1 else 0
    for host, model_width, name_width in (
        (_HOST_WIDTH, model, name),
        (_HOST_WIDTH, 0, name),
        (_HOST_WIDTH, 0, min(name, 12)),
        (0, 0, min(name, 12)),
        (0, 0, min(name, 9)),
    ):
        used = 1 + name_width + 1 + (model_width + 1 if model_width else 0) + host
        cell = (columns - used) // gpus - 1
        if cell >= min(_GOOD_CELL, 8 if not host else _GOOD_CELL):
            break
    cell = max(_MIN_CELL, min(_MAX_CELL, cell))
    cells = max(1, min(gpus, (columns - used) // (cell + 1)))
    return NodeRowLayout(columns, name_width, model_width, cell, cells, host, rows)


def header(layout: NodeRowLayout) -> TopLine:
    """Return the heading of the rows."""
    heads = [align_left(str(at), layout.cell) for at in range(layout.cells)]
    text = f" {align_left('NODE', layout.name)} "
    if layout.model:
        text += f"{align_left('MODEL', layout.model)} "
    text += " ".join(heads)
    line: TopLine = [(text, "head")]
    if layout.host:
        space = layout.columns - display_width(text) - layout.host
        line.append((" " * max(0, space) + "  CPU  RAM", "head"))
    return fit(line, layout.columns)


def node_lines(
    item: NodeItem,
    layout: NodeRowLayout,
    now: float,
    *,
    name: str,
    matching: frozenset[str] | None,
    chosen: str | None,
    is_chosen: bool,
) -> list[TopLine]:
    """Return the lines of a node; `chosen` is the UUID of the GPU at the cursor, if it is here.

    GPUs that do not match the filter are faint.
    """
    node = item.view
    name_role = "select" if is_chosen else ("unknown" if item.silent else "title")
    mark = "▶" if is_chosen else " "
    first: TopLine = [(f"{mark}{align_left(name, layout.name)} ", name_role)]
    second: TopLine = [(f" {align_left(_place(node), layout.name)} ", "dim")]
    if layout.model:
        first.append((f"{align_left(_model(node), layout.model)} ", "dim"))
        second.append((" " * (layout.model + 1), None))
    lines = [first, second][: layout.rows]
    shown = node.gpus[: layout.cells]
    for at, gpu in enumerate(shown):
        dimmed = matching is not None and gpu.uuid not in matching
        is_last = at == layout.cells - 1 and len(node.gpus) > layout.cells
        for line, cell in zip(lines, cell_lines(gpu, layout.cell, layout.rows, now), strict=True):
            cell_line: TopLine = [("…" + " " * (layout.cell - 1), "dim")] if is_last else cell
            if gpu.uuid == chosen:
                cell_line = marked(cell_line, "!")
            elif dimmed or item.silent:
                cell_line = marked(cell_line, "~")
            line += [*cell_line, (" ", None)]
    if not node.gpus:
        first.append(_without_gpus(item))
    return [_with_host(line, item, layout, now, first=line is first) for line in lines]


def _without_gpus(item: NodeItem) -> TopSpan:
    node = item.view
    problem = next(iter((*node.warnings, *node.failures)), None)
    if problem:
        return problem, "warn"
    return ("never reported" if node.taken_at is None else "no GPU"), "dim"


def _with_host(
    line: TopLine, item: NodeItem, layout: NodeRowLayout, now: float, *, first: bool
) -> TopLine:
    """Append the load of the host, or for how long the node is silent."""
    if not first:
        return fit(line, layout.columns)
    if item.silent:
        reported = item.reported_at
        age = "" if reported is None else short_elapsed(now - reported)
        end: TopLine = [(align_right(f"silent {age}", max(10, layout.host)), "warn")]
    elif layout.host:
        cpu, ram = format_percent(item.cpu_percent), format_percent(item.memory_percent)
        end = [(align_right(cpu, 5) + align_right(ram, 5), "dim")]
    else:
        return fit(line, layout.columns)
    width = sum([display_width(text) for text, _ in end])
    return [*fit(line, layout.columns - width), *end]


def _place(node: NodeView) -> str:
    """Return what the second row says of a node: its problems, or else its model."""
    problems = (*node.warnings, *node.failures)
    return problems[0] if problems else _model(node)


def _model(node: NodeView) -> str:
    return _models(tuple(count_models(node.gpus).items()))


@lru_cache(maxsize=1024)
def _models(counts: Sequence[tuple[str, int]]) -> str:
    if len(counts) != 1:
        return f"{len(counts)} models" if counts else ""
    return short_model(counts[0][0])
