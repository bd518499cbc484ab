"""Process lines below a GPU's row: pid, user, load, memory, age and command."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.process_limit import more_processes_text
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import UNKNOWN, format_elapsed, format_size
from fleet_smi.terminal.paint import Span, align_left, align_right, display_width
from fleet_smi.terminal.view.formatting import SEPARATOR, format_percent

_INDENT = "    "
_GAP = "  "
_MAX_USER_WIDTH = 16
_WIDE_COLUMNS = 110  # from here on, the load and the memory of the host are shown too


class ProcessCells(NamedTuple):
    """The cells of one process before its description."""

    pid: str
    user: str
    busy: str
    memory: str
    cpu: str
    host_memory: str
    age: str


class ProcessColumns(Struct, frozen=True):
    """Widths of the process columns of one node; 0 for one that is not shown."""

    pid: int
    user: int
    busy: int
    memory: int
    cpu: int
    host_memory: int
    age: int


def process_columns(processes: Iterable[Process], node: NodeView, columns: int) -> ProcessColumns:
    """Return widths that fit all these processes on a terminal of that width."""
    rows = [process_cells(process, node) for process in processes]
    if not rows:
        return ProcessColumns(5, 0, 0, 0, 0, 0, 0)
    pid, user, busy, memory, cpu, host_memory, age = [
        max([display_width(cell) for cell in column]) for column in zip(*rows, strict=True)
    ]
    has_load = any(not row.busy.startswith(UNKNOWN) for row in rows)
    is_wide = columns >= _WIDE_COLUMNS
    has_cpu = is_wide and any(not row.cpu.startswith(UNKNOWN) for row in rows)
    has_memory = is_wide and any(not row.host_memory.startswith(UNKNOWN) for row in rows)
    return ProcessColumns(
        max(5, pid),
        min(user, _MAX_USER_WIDTH),
        busy if has_load else 0,
        memory,
        cpu if has_cpu else 0,
        host_memory if has_memory else 0,
        age,
    )


def node_process_columns(node: NodeView, columns: int) -> ProcessColumns:
    """Return widths that fit all processes of a node."""
    processes = [process for gpu in node.gpus for process in gpu.processes or ()]
    instances = [instance for gpu in node.gpus for instance in gpu.instances]
    processes += [process for instance in instances for process in instance.processes or ()]
    return process_columns(processes, node, columns)


def device_process_lines(
    device: JudgedGpu | JudgedInstance, node: NodeView, widths: ProcessColumns
) -> Iterator[list[Span]]:
    """Yield the process lines of one GPU or instance, largest first."""
    for process in _own_processes(device):
        yield _line(process, node, widths)
    if device.more_processes:
        yield [(f"{_INDENT}{more_processes_text(device.more_processes)}", "dim")]
    if device.processes is None and device.verdict.state in ("busy", "held", "ghost"):
        why = device.unread.get("processes")
        yield [(f"{_INDENT}processes could not be read{f': {why}' if why else ''}", "dim")]


def process_list_lines(
    processes: Iterable[Process], node: NodeView, columns: int
) -> Iterator[list[Span]]:
    """Yield the lines of these processes, largest first, with widths of their own."""
    processes = tuple(processes)
    widths = process_columns(processes, node, columns)
    for process in sorted(processes, key=_largest_first):
        yield _line(process, node, widths)


def _line(process: Process, node: NodeView, widths: ProcessColumns) -> list[Span]:
    cells = process_cells(process, node)
    line: list[Span] = [
        (_INDENT + align_right(cells.pid, widths.pid) + _GAP, "dim"),
        (align_left(cells.user, widths.user) + _GAP, None),
    ]
    for cell, width in (
        (cells.busy, widths.busy),
        (cells.memory, widths.memory),
        (cells.cpu, widths.cpu),
        (cells.host_memory, widths.host_memory),
    ):
        if width:
            line.append((align_right(cell, width) + _GAP, None))
    age: Span = (align_right(cells.age, widths.age) + _GAP, "dim")
    return [*line, age, (describe_process(process), None)]


def _largest_first(process: Process) -> tuple[int, int]:
    # The pid makes the order stable from one refresh to the next.
    return -(process.gpu_memory_bytes or 0), process.pid


def _own_processes(device: JudgedGpu | JudgedInstance) -> Sequence[Process]:
    """Return the processes to list here; those of MIG instances are listed under the instance."""
    in_instances: set[int] = set()
    if isinstance(device, JudgedGpu):
        in_instances = {
            process.pid for instance in device.instances for process in instance.processes or ()
        }
    own = (process for process in device.processes or () if process.pid not in in_instances)
    return sorted(own, key=_largest_first)


def process_cells(process: Process, node: NodeView) -> ProcessCells:
    """Return the cells of a process; its loads say of what, because there is no heading."""
    user = owner(process)
    return ProcessCells(
        pid=UNKNOWN if process.pid_is_made else str(process.pid),
        user=UNKNOWN if user == HIDDEN_USER else user,
        busy=f"{format_percent(process.busy_percent)} SM",
        memory=_size(process.gpu_memory_bytes),
        cpu=f"{format_percent(process.cpu_percent)} CPU",
        host_memory=f"{_size(process.host_memory_bytes)} RAM",
        age=_age(process, node),
    )


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else format_size(count)


def _age(process: Process, node: NodeView) -> str:
    # Both times are by the node's clock, so the age is right even if that clock is wrong.
    if process.started_at is None or node.taken_at is None:
        return UNKNOWN
    return format_elapsed(node.taken_at - process.started_at)


def describe_process(process: Process) -> str:
    """Return where a process runs (job, pod or container), then its command."""
    if process.hidden:
        return "a process you may not see"
    tags = [
        process.condition,
        f"job {process.slurm_job}" if process.slurm_job else None,
        f"in {process.pod or process.container}" if process.pod or process.container else None,
        "display" if process.kind == "graphics" else None,
        process.command or process.name or UNKNOWN,
    ]
    return SEPARATOR.join(tag for tag in tags if tag)
