"""The processes on GPUs as a table: load, memory, owner, age, place and command; or as a tree."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.process_limit import more_processes_text
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import UNKNOWN, format_elapsed, format_size
from fleet_smi.terminal.paint import align_left, align_right, display_width, truncate
from fleet_smi.terminal.top.spans import TopLine, fit, marked
from fleet_smi.terminal.view.formatting import format_percent
from fleet_smi.terminal.view.process_lines import describe_process

_MAX_USER = 14
_MAX_PLACE = 13
_GAP = "  "
PROCESS_SORTS = ("memory", "sm", "cpu", "age", "user")
_HEADS = ("PID", "USER", "GPU", "SM", "MEMORY", "CPU", "HOST", "AGE")
_LEFT = ("USER",)
# Columns that a narrow terminal drops, in this order.
_DROPPABLE = ("HOST", "AGE", "CPU")
_MIN_COMMAND = 20


class ProcessRow(Struct, frozen=True):
    """A process on one GPU or instance; `depth` is its level in the tree."""

    process: Process
    gpu: str
    depth: int = 0
    is_last: bool = False


def process_rows(
    node: NodeView, uuid: str | None, *, sort: str, tree: bool
) -> tuple[ProcessRow, ...]:
    """Return the processes of one GPU, or of all GPUs of the node, in order."""
    rows = [row for gpu in node.gpus if uuid in (None, gpu.uuid) for row in _gpu_rows(gpu)]
    rows.sort(key=lambda row: (_SORT_KEYS[sort](row.process), row.process.pid, row.gpu))
    return _as_tree(rows) if tree else tuple(rows)


def hidden_lines(node: NodeView, uuid: str | None) -> list[TopLine]:
    """Return what is not in the table: a list that has a limit, or that cannot be read."""
    lines: list[TopLine] = []
    for gpu in node.gpus:
        if uuid not in (None, gpu.uuid):
            continue
        if gpu.more_processes:
            lines.append([(f" {more_processes_text(gpu.more_processes)}", "dim")])
        if gpu.processes is None and gpu.verdict.state in ("busy", "held", "ghost"):
            why = gpu.unread.get("processes")
            text = f" processes could not be read{f': {why}' if why else ''}"
            lines.append([(text, "dim")])
    return lines


def _gpu_rows(gpu: JudgedGpu) -> Iterable[ProcessRow]:
    inside: set[int] = set()
    for number, instance in enumerate(gpu.instances):
        for process in instance.processes or ():
            inside.add(process.pid)
            yield ProcessRow(process, f"{gpu.index}:{number}")
    for process in gpu.processes or ():
        if process.pid not in inside:
            yield ProcessRow(process, str(gpu.index))


_SORT_KEYS = {
    "memory": lambda process: -(process.gpu_memory_bytes or 0),
    "sm": lambda process: -(process.busy_percent or 0.0),
    "cpu": lambda process: -(process.cpu_percent or 0.0),
    "age": lambda process: process.started_at or float("inf"),
    "user": owner,
}


def _as_tree(rows: Sequence[ProcessRow]) -> tuple[ProcessRow, ...]:
    """Return the rows with children below their parents; siblings keep their order."""
    pids = {row.process.pid for row in rows}
    children: dict[int, list[ProcessRow]] = {}
    roots: list[ProcessRow] = []
    for row in rows:
        parent = row.process.parent_pid
        if parent in pids and parent != row.process.pid:
            children.setdefault(parent, []).append(row)
        else:
            roots.append(row)
    found: list[ProcessRow] = []
    seen: set[int] = set()

    def add(row: ProcessRow, depth: int, *, is_last: bool) -> None:
        found.append(ProcessRow(row.process, row.gpu, depth, is_last))
        # Once per process: one on several GPUs has several rows, and pids may form a loop.
        below = [] if row.process.pid in seen else children.get(row.process.pid, [])
        seen.add(row.process.pid)
        for at, child in enumerate(below):
            add(child, depth + 1, is_last=at == len(below) - 1)

    for row in roots:
        add(row, 0, is_last=False)
    # What is only in a loop has no root.
    shown = {(row.process.pid, row.gpu) for row in found}
    found += [row for row in rows if (row.process.pid, row.gpu) not in shown]
    return tuple(found)


class ProcessLayout(Struct, frozen=True):
    """The columns that are shown, with their widths."""

    columns: int
    widths: dict[str, int]


def choose_layout(rows: Sequence[ProcessRow], node: NodeView, columns: int) -> ProcessLayout:
    """Return the columns that leave room for the command."""
    cells = [_cells(row, node) for row in rows]
    widths = {
        head: max([len(head), *[display_width(cell[head]) for cell in cells]]) for head in _HEADS
    }
    widths["USER"] = min(widths["USER"], _MAX_USER)
    for head in _DROPPABLE:
        if sum(widths.values()) + len(_GAP) * len(widths) + _MIN_COMMAND <= columns:
            break
        del widths[head]
    return ProcessLayout(columns, widths)


def header(layout: ProcessLayout, sort: str) -> TopLine:
    """Return the heading; the column that decides the order is marked."""
    sorted_by = {"memory": "MEMORY", "sm": "SM", "cpu": "CPU", "age": "AGE", "user": "USER"}[sort]
    spans: TopLine = [(" ", None)]
    for head, width in layout.widths.items():
        align = align_left if head in _LEFT else align_right
        spans.append((align(head, width) + _GAP, "key" if head == sorted_by else "head"))
    return fit([*spans, ("COMMAND", "head")], layout.columns)


def row_line(row: ProcessRow, node: NodeView, layout: ProcessLayout, *, chosen: bool) -> TopLine:
    """Return the line of one process."""
    cells = _cells(row, node)
    spans: TopLine = [("▶" if chosen else " ", "select")]
    for head, width in layout.widths.items():
        align = align_left if head in _LEFT else align_right
        role = "dim" if head in ("PID", "AGE", "GPU") else None
        if head == "SM" and row.process.busy_percent:
            role = "busy"
        spans.append((align(cells[head], width) + _GAP, role))
    branch = "" if not row.depth else "  " * (row.depth - 1) + ("└─ " if row.is_last else "├─ ")
    spans += [(branch, "dim"), (_description(row.process), None)]
    line = fit(spans, layout.columns)
    return marked(line, "!") if chosen else line


def _description(process: Process) -> str:
    """Return place and command; ids of containers are cut, or little of the command would show."""
    pod, container = process.pod, process.container
    if not (pod or container):
        return describe_process(process)
    cut = [None if each is None else truncate(each, _MAX_PLACE) for each in (pod, container)]
    return describe_process(replace(process, pod=cut[0], container=cut[1]))


def _cells(row: ProcessRow, node: NodeView) -> dict[str, str]:
    process, user = row.process, owner(row.process)
    return {
        "PID": UNKNOWN if process.pid_is_made else str(process.pid),
        "USER": UNKNOWN if user == HIDDEN_USER else user,
        "GPU": row.gpu,
        "SM": format_percent(process.busy_percent),
        "MEMORY": _size(process.gpu_memory_bytes),
        "CPU": format_percent(process.cpu_percent),
        "HOST": _size(process.host_memory_bytes),
        "AGE": _age(process, node),
    }


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else format_size(count)


def _age(process: Process, node: NodeView) -> str:
    # Both times are by the node's clock, so the age is right even if that clock is wrong.
    if process.started_at is None or node.taken_at is None:
        return UNKNOWN
    return format_elapsed(node.taken_at - process.started_at)
