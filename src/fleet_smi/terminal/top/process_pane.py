"""The processes of a GPU or a node in a part of the screen: scrolled, one of them chosen."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.terminal.top.frame import Frame, scrolled
from fleet_smi.terminal.top.spans import TopLine, fit
from fleet_smi.terminal.top.view import process_table
from fleet_smi.terminal.top.view.process_table import ProcessRow


def shown_processes(frame: Frame, node: NodeView, uuid: str | None) -> tuple[ProcessRow, ...]:
    """Return the processes in the order of the screen."""
    state = frame.state
    return process_table.process_rows(node, uuid, sort=state.process_sort, tree=state.tree)


def process_pane(
    frame: Frame, node: NodeView, uuid: str | None, columns: int, rows: int, top: int
) -> list[TopLine]:
    """Return the heading and the processes that fit into so many rows."""
    state = frame.state
    table = shown_processes(frame, node, uuid)
    hidden = [fit(line, columns) for line in process_table.hidden_lines(node, uuid)]
    if not table:
        return hidden or [fit([(" no processes", "dim")], columns)]
    layout = process_table.choose_layout(table, node, columns)
    room = max(0, rows - 1 - len(hidden))
    keys = [row_key(row) for row in table]
    at = keys.index(state.process_key) if state.process_key in keys else 0
    in_pane = state.pane == "processes"
    state.first_process = scrolled(state.first_process, at, max(1, room), len(table))
    lines = [process_table.header(layout, state.process_sort)]
    for row in table[state.first_process : state.first_process + room]:
        frame.process_at[top + len(lines)] = row_key(row)
        chosen = in_pane and row_key(row) == keys[at]
        lines.append(process_table.row_line(row, node, layout, chosen=chosen))
    below = len(table) - state.first_process - room
    if below > 0 and len(lines) > 1:
        lines[-1] = fit([(f" … {below + 1} more", "dim")], columns)
        frame.process_at.pop(top + len(lines) - 1, None)
    return [*lines, *hidden]


def row_key(row: ProcessRow) -> tuple[int, str]:
    """Return what tells a row from the others: a process can be on several GPUs."""
    return row.process.pid, row.gpu
