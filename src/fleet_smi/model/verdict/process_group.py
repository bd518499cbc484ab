"""Everybody on one GPU or instance, and what they are together.

Most samples show the same processes as the one before: their `Crowd` is then kept.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec import Struct

from fleet_smi.model.fleet import Note
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.readings import (
    is_display,
    is_mps_server,
    is_windowed,
    total_process_memory,
)

# All of a process that a judgement asks for, but for its start.
_TRAITS = attrgetter(
    "pid", "gpu_memory_bytes", "user", "uid", "kind", "name", "condition", "hidden"
)


class ProcessGroup(Struct, frozen=True, kw_only=True, gc=False):
    """The processes of one sample, seen as one; MPS servers count for nobody.

    `pids` is `None` when they could not be read. Somebody `computes` who is no display, and
    is `living` who is neither dead nor beyond waking. `name` and `named_memory_bytes` are of
    those to be named: the living, and no display server beside someone who computes. Bytes
    are `None` unless each process has a figure.
    """

    traits: tuple[object, ...] = ()
    pids: frozenset[int] | None = frozenset()
    somebody: bool = False
    computes: bool = False
    living: bool = False
    windowed: bool = False
    name: str = ""
    named_memory_bytes: int | None = 0
    memory_bytes: int | None = 0
    notes: tuple[Note, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether they could be read and there is none."""
        return self.pids is not None and not self.pids

    @property
    def unoccupied(self) -> bool:
        """Whether they could be read and nobody is there: at most an MPS server."""
        return self.pids is not None and not self.somebody


EMPTY_GROUP = ProcessGroup()
UNREADABLE_GROUP = ProcessGroup(pids=None, memory_bytes=None)


def summarize_processes(
    processes: tuple[Process, ...] | None, previous: ProcessGroup = EMPTY_GROUP
) -> ProcessGroup:
    """What these processes are together: the crowd already `known` where nothing changed."""
    if not processes:
        return UNREADABLE_GROUP if processes is None else EMPTY_GROUP
    traits = tuple(map(_TRAITS, processes))
    return previous if traits == previous.traits else _gathered(processes, traits)


def _gathered(processes: tuple[Process, ...], traits: tuple[object, ...]) -> ProcessGroup:
    members = without_mps_servers(processes)
    named = _named(members)
    return ProcessGroup(
        traits=traits,
        pids=frozenset([process.pid for process in processes]),
        somebody=bool(members),
        computes=not all(map(is_display, members)),
        living=any(process.condition is None for process in members),
        windowed=any(map(is_windowed, members)),
        name=reasons.describe_owners(named) if named else "",
        named_memory_bytes=total_process_memory(named),
        memory_bytes=total_process_memory(processes),
        notes=_notes(members) if len(members) > 1 else (),
    )


def without_mps_servers(processes: Iterable[Process] | None) -> list[Process]:
    """Those who are somebody: all but MPS servers."""
    return [one for one in processes or () if not is_mps_server(one)]


def _named(members: list[Process]) -> list[Process]:
    if len(members) <= 1:
        return members
    living = [one for one in members if one.condition is None] or members
    return [one for one in living if not is_display(one)] or living


def _notes(members: Sequence[Process]) -> tuple[Note, ...]:
    return tuple([note for note in (_shared(members), _unseen(members)) if note])


def _shared(members: Sequence[Process]) -> Note | None:
    """Several people; a display server beside someone who computes is not one of them."""
    people = [one for one in members if not is_display(one)] or members
    users = {one.user or one.uid for one in people} - {None, ""}
    return Note("shared", f"shared by {len(users)}") if len(users) > 1 else None


def _unseen(members: Sequence[Process]) -> Note | None:
    # Of a single one the reason already says it.
    count = sum(process.hidden for process in members)
    if not count:
        return None
    return Note("hidden", f"{count} {'process' if count == 1 else 'processes'} cannot be seen")
