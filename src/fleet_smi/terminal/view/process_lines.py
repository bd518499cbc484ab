"""The processes of a GPU, one line each, under its row."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.people import UNSEEN, owner
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import format_size
from fleet_smi.terminal.paint import Span, left, right, width
from fleet_smi.terminal.view.words import DOT, UNKNOWN, duration

_INDENT = "    "
_GAP = "  "
_USER_AT_MOST = 16


class Places(Struct, frozen=True):
    """How wide each column of the processes of one node is."""

    pid: int
    user: int
    memory: int
    age: int


def places(processes: Iterable[Process], node: NodeView) -> Places:
    """The widths that suit all these processes."""
    cells = [_cells(process, node) for process in processes]
    widest = [max((width(cell[at]) for cell in cells), default=0) for at in range(4)]
    return Places(max(5, widest[0]), min(widest[1], _USER_AT_MOST), widest[2], widest[3])


def node_places(node: NodeView) -> Places:
    """The widths that suit all processes of a node."""
    found = [process for gpu in node.gpus for process in gpu.processes or ()]
    slices = [instance for gpu in node.gpus for instance in gpu.instances]
    found += [process for instance in slices for process in instance.processes or ()]
    return places(found, node)


def lines(part: JudgedGpu | JudgedInstance, node: NodeView, room: Places) -> Iterator[list[Span]]:
    """The lines of one GPU or instance, the largest process first."""
    for process in _own(part):
        yield _line(process, node, room)
    if part.processes is None and part.verdict.state in ("busy", "held", "ghost"):
        why = part.unread.get("processes")
        yield [(f"{_INDENT}processes could not be read{f': {why}' if why else ''}", "dim")]


def listed(processes: Iterable[Process], node: NodeView) -> Iterator[list[Span]]:
    """The lines of some processes of one person, on their own."""
    processes = tuple(processes)
    room = places(processes, node)
    for process in sorted(processes, key=_largest_first):
        yield _line(process, node, room)


def _line(process: Process, node: NodeView, room: Places) -> list[Span]:
    pid, user, memory, age, what = _cells(process, node)
    return [
        (_INDENT + right(pid, room.pid) + _GAP, "dim"),
        (left(user, room.user) + _GAP, None),
        (right(memory, room.memory) + _GAP, None),
        (right(age, room.age) + _GAP, "dim"),
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
        UNKNOWN if user == UNSEEN else user,
        UNKNOWN if memory is None else format_size(memory),
        _age(process, node),
        words(process),
    )


def _age(process: Process, node: NodeView) -> str:
    # Both times are of the node's own clock, so that a wrong clock does no harm.
    if process.started_at is None or node.taken_at is None:
        return UNKNOWN
    return duration(node.taken_at - process.started_at)


def words(process: Process) -> str:
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
    return DOT.join(tag for tag in tags if tag)
