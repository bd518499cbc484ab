"""Process group: a summary of the processes on one GPU or MIG instance.

Most samples show the same processes as the one before: their summary is then reused.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from fleet_smi.model.fleet import Note
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.readings import (
    is_desktop,
    is_display,
    is_mps_server,
    is_service,
    is_windowed,
    total_process_memory,
)

# All fields of a process that a verdict depends on, but for its start: while these stay the same,
# so does the summary. Utilisation and CPU time, which change with every sample, are not among them.
_traits = attrgetter(
    "pid", "gpu_memory_bytes", "user", "uid", "kind", "name", "condition", "hidden"
)


class ProcessGroup(Struct, frozen=True, kw_only=True, gc=False):
    """The processes of one sample in sum; MPS servers and system services are no members.

    `pids` is `None` when the list could not be read. `computes` means that one of the members is
    no display, `has_living` that one is neither a zombie nor uninterruptible, `has_windowed` that
    a windowing driver lists one. `name` and `named_memory_bytes` are of the members that a reason
    names: the living, and no display beside one that computes. Bytes are `None` unless each
    process has a figure. `desktop` means that every member is a known desktop program, `shared`
    that several users compute, and `has_mps_server` that one waits for clients.
    """

    traits: tuple[object, ...] = ()
    pids: frozenset[int] | None = frozenset()
    has_members: bool = False
    computes: bool = False
    has_living: bool = False
    has_windowed: bool = False
    desktop: bool = False
    shared: bool = False
    has_mps_server: bool = False
    name: str = ""
    named_memory_bytes: int | None = 0
    memory_bytes: int | None = 0
    notes: tuple[Note, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the list was read and is empty."""
        return self.pids is not None and not self.pids

    @property
    def unoccupied(self) -> bool:
        """Whether the list was read and has at most services."""
        return self.pids is not None and not self.has_members


# One object each: an unchanged summary is recognised by identity, empty ones too.
EMPTY_GROUP = ProcessGroup()
UNREADABLE_GROUP = ProcessGroup(pids=None, memory_bytes=None)


def summarize_processes(
    processes: tuple[Process, ...] | None, previous: ProcessGroup = EMPTY_GROUP
) -> ProcessGroup:
    """Summarise the processes; return `previous` itself where nothing relevant changed."""
    if not processes:
        return UNREADABLE_GROUP if processes is None else EMPTY_GROUP
    traits = tuple(map(_traits, processes))
    return previous if traits == previous.traits else _summary(processes, traits)


def _summary(processes: tuple[Process, ...], traits: tuple[object, ...]) -> ProcessGroup:
    members = without_services(processes)
    named = _named(members)
    shared = _shared(members) if len(members) > 1 else None
    return ProcessGroup(
        traits=traits,
        pids=frozenset([process.pid for process in processes]),
        has_members=bool(members),
        computes=not all(map(is_display, members)),
        has_living=any(process.condition is None for process in members),
        has_windowed=any(map(is_windowed, members)),
        desktop=bool(members) and all(map(is_desktop, members)),
        shared=shared is not None,
        has_mps_server=len(members) < len(processes) and any(map(is_mps_server, processes)),
        name=reasons.describe_owners(named) if named else "",
        named_memory_bytes=total_process_memory(named),
        memory_bytes=total_process_memory(processes),
        notes=tuple([note for note in (shared, _hidden(members)) if note])
        if len(members) > 1
        else (),
    )


def without_services(processes: Iterable[Process] | None) -> list[Process]:
    """Return all processes but MPS servers and system services."""
    return [process for process in processes or () if not is_service(process)]


def user_processes(subject: Gpu | Instance) -> tuple[Process, ...]:
    """Return the processes on a GPU and its instances, each once, without displays and services."""
    own = without_services(subject.processes)
    found = {process.pid: process for process in own if not is_display(process)}
    if isinstance(subject, Gpu):
        for instance in subject.instances:
            found.update({process.pid: process for process in instance.processes or ()})
    return tuple(found.values())


def _named(members: list[Process]) -> list[Process]:
    if len(members) <= 1:
        return members
    # A reason names who can act: not a zombie beside a living process, nor the display server.
    living = [process for process in members if process.condition is None] or members
    return [process for process in living if not is_display(process)] or living


def _shared(members: Sequence[Process]) -> Note | None:
    """Note several users; the owner of a display beside a compute process is not one of them."""
    counted = [process for process in members if not is_display(process)] or members
    users = {process.user or process.uid for process in counted} - {None, ""}
    return Note("shared", f"shared by {len(users)}") if len(users) > 1 else None


def _hidden(members: Sequence[Process]) -> Note | None:
    count = sum(process.hidden for process in members)
    if not count:
        return None
    return Note("hidden", f"{count} {'process' if count == 1 else 'processes'} cannot be seen")
