"""The processes of a GPU, one line each, under its row."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import format_size
from fleet_smi.terminal.paint import Span, align_left, align_right, display_width
from fleet_smi.terminal.view.formatting import SEPARATOR, UNKNOWN, format_elapsed

_INDENT = "    "
_GAP = "  "
_USER_AT_MOST = 16


class ProcessColumns(Struct, frozen=True):
    """How wide each column of the processes of one node is."""

    pid: int
    user: int
    memory: int
    age: int


def process_columns(processes: Iterable[Process], node: NodeView) -> ProcessColumns:
    """The widths that suit all these processes."""
    cells = [_cells(process, node) for process in processes]
    widest = [max((display_width(cell[at]) for cell in cells), default=0) for at in range(4)]
    return ProcessColumns(max(5, widest[0]), min(widest[1], _USER_AT_MOST), widest[2], widest[3])


def node_process_columns(node: NodeView) -> ProcessColumns:
    """The widths that suit all processes of a node."""
    found = [process for gpu in node.gpus for process in gpu.processes or ()]
    slices = [instance for gpu in node.gpus for instance in gpu.instances]
    found += [process for instance in slices for process in instance.processes or ()]
    return process_columns(found, node)


def device_process_lines(
    device: JudgedGpu | JudgedInstance, node: NodeView, widths: ProcessColumns
) -> Iterator[list[Span]]:
    """The lines of one GPU or instance, the largest process first."""
    for process in _own(device):
        yield _line(process, node, widths)
    if device.processes is None and device.verdict.state in ("busy", "held", "ghost"):
        why = device.unread.get("processes")
        yield [(f"{_INDENT}processes could not be read{f': {why}' if why else ''}", "dim")]


def process_list_lines(processes: Iterable[Process], node: NodeView) -> Iterator[list[Span]]:
    """The lines of some processes of one person, on their own."""
    processes = tuple(processes)
    room = process_columns(processes, node)
    for process in sorted(processes, key=_largest_first):
        yield _line(process, node, room)


def _line(process: Process, node: NodeView, room: ProcessColumns) -> list[Span]:
    pid, user, memory, age, what = _cells(process, node)
    return [
        (_INDENT + align_right(pid, room.pid) + _GAP, "dim"),
        (align_left(user, room.user) + _GAP, None),
        (align_right(memory, room.memory) + _GAP, None),
        (align_right(age, room.age) + _GAP, "dim"),
        (what, None),
    ]


def _largest_first(process: Process) -> tuple[int, int]:
    return -(process.gpu_memory_bytes or 0), process.pid


def _own(part: JudgedGpu | JudgedInstance) -> Sequence[Process]:
    """The processes to list here: those of an instance are listed under the instance."""
    inside: set[int] = set()
    if isinstance(part, JudgedGpu):
        inside = {process.pid for each in part.instances for process in each.processes or ()}
    own = (process for process in part.processes or () if process.pid not in inside)
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
    # Both times are of the node's own clock, so that a wrong clock does no harm.
    if process.started_at is None or node.taken_at is None:
        return UNKNOWN
    return format_elapsed(node.taken_at - process.started_at)


def describe_process(process: Process) -> str:
    """What a process is: where it runs, then its command."""
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
