"""Process lines below a GPU's row: pid, user, memory, age and command."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.process_limit import more_processes_text
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import UNKNOWN, format_elapsed, format_size
from fleet_smi.terminal.paint import Span, align_left, align_right, display_width
from fleet_smi.terminal.view.formatting import SEPARATOR

_INDENT = "    "
_GAP = "  "
_MAX_USER_WIDTH = 16


class ProcessColumns(Struct, frozen=True):
    """Widths of the process columns of one node."""

    pid: int
    user: int
    memory: int
    age: int


def process_columns(processes: Iterable[Process], node: NodeView) -> ProcessColumns:
    """Return widths that fit all these processes."""
    rows = [_cells(process, node) for process in processes]
    widths = [max((display_width(row[at]) for row in rows), default=0) for at in range(4)]
    return ProcessColumns(max(5, widths[0]), min(widths[1], _MAX_USER_WIDTH), widths[2], widths[3])


def node_process_columns(node: NodeView) -> ProcessColumns:
    """Return widths that fit all processes of a node."""
    processes = [process for gpu in node.gpus for process in gpu.processes or ()]
    instances = [instance for gpu in node.gpus for instance in gpu.instances]
    processes += [process for instance in instances for process in instance.processes or ()]
    return process_columns(processes, node)


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


def process_list_lines(processes: Iterable[Process], node: NodeView) -> Iterator[list[Span]]:
    """Yield the lines of these processes, largest first, with widths of their own."""
    processes = tuple(processes)
    widths = process_columns(processes, node)
    for process in sorted(processes, key=_largest_first):
        yield _line(process, node, widths)


def _line(process: Process, node: NodeView, widths: ProcessColumns) -> list[Span]:
    pid, user, memory, age, description = _cells(process, node)
    return [
        (_INDENT + align_right(pid, widths.pid) + _GAP, "dim"),
        (align_left(user, widths.user) + _GAP, None),
        (align_right(memory, widths.memory) + _GAP, None),
        (align_right(age, widths.age) + _GAP, "dim"),
        (description, None),
    ]


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


def _cells(process: Process, node: NodeView) -> tuple[str, str, str, str, str]:
    user, memory = owner(process), process.gpu_memory_bytes
    return (
        UNKNOWN if process.pid_is_made else str(process.pid),
        UNKNOWN if user == HIDDEN_USER else user,
        UNKNOWN if memory is None else format_size(memory),
        _age(process, node),
        describe_process(process),
    )


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
