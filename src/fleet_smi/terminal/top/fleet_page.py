"""The fleet: rows of nodes, with the chosen GPU below or beside them, or the history below."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.terminal.top.frame import Frame, exactly, scrolled
from fleet_smi.terminal.top.process_pane import process_pane
from fleet_smi.terminal.top.spans import TopLine, marked
from fleet_smi.terminal.top.state import TopData, chosen_gpu, chosen_item
from fleet_smi.terminal.top.view import detail, node_rows
from fleet_smi.terminal.top.view.history import history_lines

_BESIDE_COLUMNS = 150
_STACKED_COLUMNS = 120
_BRIEF_ROWS = 6  # a lower pane has one line of figures and no processes
_PANE_ROWS = 11  # enough for figures and a few processes, and all twelve nodes of a small lab


def fleet_lines(frame: Frame, rows: int, top: int) -> list[TopLine]:
    """Return the page in so many rows, of which the first is at `top`."""
    state, data, columns = frame.state, frame.data, frame.columns
    if not data.arrangement.node_ids:
        return [[], [(f" {empty_text(data)}", "dim")]]
    item = chosen_item(state, data)
    node = None if item is None else data.node_view(item.node_id)
    if columns >= _BESIDE_COLUMNS:
        left = max(100, columns * 3 // 5)
        right = columns - left - 2
        rows_lines = exactly(_rows_pane(frame, rows, left, top), left, rows)
        pane = [] if node is None else detail_pane(frame, node, rows, right, top)
        pairs = zip(rows_lines, exactly(pane, right, rows), strict=True)
        return [[*one, (" │", "rule"), *other] for one, other in pairs]
    below = _detail_rows(frame, rows)
    above = rows - below
    lines = exactly(_rows_pane(frame, above, columns, top), columns, above)
    if node is None or below < 1:
        return lines
    return [*lines, *detail_pane(frame, node, below, columns, top + above)]


def history_page_lines(frame: Frame, rows: int, top: int) -> list[TopLine]:
    """Return the rows, and the history of the chosen node below them."""
    pane = history_lines(frame)
    room = max(3, rows - len(pane))
    lines = _rows_pane(frame, room, frame.columns, top)
    return [*exactly(lines, frame.columns, room), *pane]


def empty_text(data: TopData) -> str:
    """Return why there is nothing to show."""
    if not data.fleet.is_loaded:
        return data.trouble or f"waiting for {data.source} …"
    if data.arrangement.is_filtered:
        return "No GPU matches: Esc clears the filter."
    return "No node has reported yet."


def _detail_rows(frame: Frame, rows: int) -> int:
    """Return the height of the pane below the rows: a part, and what the rows do not need."""
    nodes = len(frame.data.arrangement.node_ids)
    needed = 1 + nodes * frame.state.node_rows(frame.data)
    least = 2 if rows < 24 else min(rows * 2 // 5, _PANE_ROWS)
    return max(min(least, rows - 3), rows - needed)


def _rows_pane(frame: Frame, rows: int, columns: int, top: int) -> list[TopLine]:
    state, data = frame.state, frame.data
    ids, per_node = data.arrangement.node_ids, state.node_rows(data)
    room = max(1, (rows - 1) // per_node)
    item = chosen_item(state, data)
    at = 0 if item is None else data.arrangement.positions.get(item.node_id, 0)
    state.first_row = scrolled(state.first_row, at, room, len(ids))
    shown = [
        each for each in map(data.fleet.get, ids[state.first_row : state.first_row + room]) if each
    ]
    gpus = max([len(each.facts.gpus) for each in shown], default=1)
    names = [data.name(each.node_id) for each in shown]
    layout = frame.layout = node_rows.choose_layout(columns, names, gpus, rows=per_node)
    lines = [node_rows.header(layout)]
    for each, name in zip(shown, names, strict=True):
        is_chosen = item is not None and each.node_id == item.node_id
        gpu = chosen_gpu(state, each.view) if is_chosen else None
        for offset in range(per_node):
            frame.node_at[top + len(lines) + offset] = each.node_id
        lines += node_rows.node_lines(
            each,
            layout,
            frame.now,
            name=name,
            matching=data.arrangement.matches(each),
            chosen=None if gpu is None else gpu.uuid,
            is_chosen=is_chosen,
        )
    return lines


def detail_pane(frame: Frame, node: NodeView, rows: int, columns: int, top: int) -> list[TopLine]:
    """Return the chosen GPU and its processes, in so many rows."""
    gpu = chosen_gpu(frame.state, node)
    lines = [detail.heading(frame.data.name(node.node_id), gpu, columns)]
    if gpu is None:
        return lines
    if rows < _BRIEF_ROWS:
        return [*lines, detail.brief_line(gpu, columns)][:rows]
    points = frame.data.trends.points(gpu.uuid)
    figures = detail.figure_lines(gpu, points, columns, stacked=columns < _STACKED_COLUMNS)
    # The figures of a silent node are those of its last report.
    lines += [marked(line, "~") for line in figures] if node.silent else figures
    facts = detail.fact_lines(node, gpu, columns, frame.now, frame.local)
    lines += facts[: max(1, rows - len(lines) - 3)]
    room = rows - len(lines)
    return [*lines, *process_pane(frame, node, gpu.uuid, columns, room, top + len(lines))][:rows]
