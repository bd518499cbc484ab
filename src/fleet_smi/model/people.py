"""Users and what they hold: the owners of the processes of a fleet."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import (
    FleetView,
    JudgedDevice,
    JudgedGpu,
    NodeView,
    Summary,
)
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict.readings import is_display, is_service, total_process_memory

HIDDEN_USER = "(unseen)"
_TAKEN = ("busy", "held", "ghost")
_MAX_DELAY_SECONDS = 3.0


class Holding(Struct, frozen=True, kw_only=True):
    """What one user holds on one GPU; `processes` is empty when none of them can be seen."""

    user: str
    node: NodeView
    gpu: JudgedGpu
    processes: tuple[Process, ...]
    memory_bytes: int | None
    busy_percent: float | None
    idle: bool
    idle_seconds: float | None


class Person(Struct, frozen=True, kw_only=True):
    """One row of the list of users; all hidden processes are one row, with `seen` false."""

    user: str
    seen: bool
    gpus: int
    nodes: tuple[str, ...]
    memory_bytes: int | None
    busy_percent: float | None
    idle_gpus: int
    idle_seconds: float | None
    since: float | None


class PeopleView(Struct, frozen=True, kw_only=True):
    """Who holds GPUs at one moment, the answer of `GET /api/v1/people`.

    `holdings` are filled for one user only, each with its node but without the GPUs of that
    node. `silent` names the nodes that are not counted, `failures` what could not be read.
    """

    taken_at: float
    summary: Summary
    people: tuple[Person, ...]
    holdings: tuple[Holding, ...] = ()
    silent: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def view_people(view: FleetView, user: str | None = None) -> PeopleView:
    """Summarise who holds GPUs in a view; with `user`, only that person and all their GPUs."""
    return summarize_people(view, holdings_in_view(view), user)


def summarize_people(
    view: FleetView, holdings: Iterable[Holding], user: str | None = None
) -> PeopleView:
    """Summarise holdings that were already collected from this view, as `view_people` does."""
    selected = [one for one in holdings if user in (None, one.user)]
    return PeopleView(
        taken_at=view.taken_at,
        summary=view.summary,
        people=people_from_holdings(selected, view.taken_at),
        holdings=() if user is None else tuple(map(_without_other_gpus, selected)),
        silent=tuple(node.name for node in view.nodes if node.silent),
        failures=tuple(f"{node.name}: {text}" for node in view.nodes for text in node.failures),
    )


def _without_other_gpus(holding: Holding) -> Holding:
    # A node has every GPU of every user: one person's holdings would carry them all again.
    return replace(holding, node=replace(holding.node, gpus=()))


def people_in_view(view: FleetView) -> tuple[Person, ...]:
    """Return the users of all reporting nodes, those with the most GPUs first."""
    return people_from_holdings(holdings_in_view(view), view.taken_at)


def people_from_holdings(holdings: Iterable[Holding], now: float) -> tuple[Person, ...]:
    """Return the users of these holdings at `now`, those with the most GPUs first."""
    by_user: dict[str, list[Holding]] = {}
    for holding in holdings:
        by_user.setdefault(holding.user, []).append(holding)
    people = (_person(user, theirs, now) for user, theirs in by_user.items())
    return tuple(sorted(people, key=lambda person: (not person.seen, -person.gpus, person.user)))


def holdings_in_view(view: FleetView) -> tuple[Holding, ...]:
    """Return the holdings of every user on every GPU, in the order of the fleet."""
    return tuple(holding for node in view.nodes for holding in node_holdings(node))


def node_holdings(node: NodeView) -> list[Holding]:
    """Return the holdings on the GPUs of a node; none while it is silent."""
    gpus = () if node.silent else node.gpus
    return [holding for gpu in gpus for holding in _holdings(node, gpu)]


def owners(processes: Iterable[Process]) -> tuple[str, ...]:
    """Return the users who can be seen, the one with the most memory first."""
    memory: dict[str, int] = {}
    for process in compute_or_all_processes(processes):
        if (user := owner(process)) != HIDDEN_USER:
            memory[user] = memory.get(user, 0) + (process.gpu_memory_bytes or 0)
    return tuple(sorted(memory, key=lambda user: (-memory[user], user)))


def owner(process: Process) -> str:
    """Return the user of a process, or its uid, or `HIDDEN_USER`."""
    if process.user:
        return process.user
    return HIDDEN_USER if process.uid is None else f"uid {process.uid}"


def compute_or_all_processes(processes: Iterable[Process]) -> tuple[Process, ...]:
    """Return the processes that compute; all of them where there are only displays and services."""
    everything = tuple(processes)
    return _without_services(everything) or everything


def _without_services(processes: Iterable[Process]) -> tuple[Process, ...]:
    return tuple(
        [process for process in processes if not (is_display(process) or is_service(process))]
    )


def _holdings(node: NodeView, gpu: JudgedGpu) -> list[Holding]:
    parts: dict[str, list[Holding]] = {}
    for part, processes in _parts(gpu):
        for holding in _holdings_of_part(node, gpu, part, processes):
            parts.setdefault(holding.user, []).append(holding)
    return [_merged(theirs) for theirs in parts.values()]


def _parts(gpu: JudgedGpu) -> Iterator[tuple[JudgedDevice, Sequence[Process]]]:
    """Yield each device with a verdict of its own, and the processes on it alone."""
    inside: set[int] = set()
    for instance in gpu.instances:
        processes = instance.processes or ()
        inside.update(process.pid for process in processes)
        yield instance, processes
    # The driver lists the processes of instances under the whole GPU too: count them once.
    rest = [process for process in gpu.processes or () if process.pid not in inside]
    if rest or not gpu.instances:
        yield gpu, rest


def _holdings_of_part(
    node: NodeView,
    gpu: JudgedGpu,
    part: JudgedDevice,
    processes: Sequence[Process],
) -> Iterator[Holding]:
    state, by_user = part.verdict.state, dict[str, list[Process]]()
    if state == "free" or any(note.kind == "vacated" for note in part.verdict.notes):
        return
    # In the other states people are listed too: whoever resets a broken GPU has to ask them first.
    taken = state in _TAKEN
    shown = compute_or_all_processes(processes) if taken else _without_services(processes)
    for process in shown:
        by_user.setdefault(owner(process), []).append(process)
    # A device in use without a visible process counts for the hidden user; a ghost does not.
    if not by_user and taken and state != "ghost":
        by_user[HIDDEN_USER] = []
    for user, theirs in by_user.items():
        idle, idle_seconds = state == "held", part.verdict.idle_seconds
        for note in part.verdict.notes:
            # Idle beside somebody who works: the GPU is busy, this user is not.
            if note.user == user and note.kind == "idle_user":
                idle, idle_seconds = True, note.idle_seconds
        yield Holding(
            user=user,
            node=node,
            gpu=gpu,
            processes=tuple(theirs),
            memory_bytes=_memory(part, theirs),
            busy_percent=_busy(part, theirs, alone=len(by_user) == 1),
            idle=idle,
            idle_seconds=idle_seconds if idle else None,
        )


def _memory(part: JudgedDevice, theirs: list[Process]) -> int | None:
    if not theirs:
        return part.memory_used_bytes
    return total_process_memory(theirs)


def _busy(part: JudgedDevice, theirs: list[Process], *, alone: bool) -> float | None:
    """Return the device's utilisation; of a shared one only theirs, where it is measured."""
    own = [process.busy_percent for process in theirs]
    measured = [percent for percent in own if percent is not None]
    # A sum over some of the processes would be too low: then the device's own figure is used.
    if alone or not measured or len(measured) < len(own):
        return part.busy_percent
    return min(100.0, sum(measured))


def _merged(theirs: list[Holding]) -> Holding:
    """Merge what one user holds on several instances of one GPU."""
    first = theirs[0]
    if len(theirs) == 1:
        return first
    return Holding(
        user=first.user,
        node=first.node,
        gpu=first.gpu,
        processes=tuple(process for one in theirs for process in one.processes),
        memory_bytes=_total(one.memory_bytes for one in theirs),
        busy_percent=_mean(one.busy_percent for one in theirs),
        idle=all(one.idle for one in theirs),
        idle_seconds=_longest(one.idle_seconds for one in theirs),
    )


def _person(user: str, theirs: list[Holding], now: float) -> Person:
    idle = [holding for holding in theirs if holding.idle]
    starts = [_start(process, one.node, now) for one in theirs for process in one.processes]
    return Person(
        user=user,
        seen=user != HIDDEN_USER,
        gpus=len(theirs),
        nodes=tuple(dict.fromkeys(holding.node.name for holding in theirs)),
        memory_bytes=_total(holding.memory_bytes for holding in theirs),
        busy_percent=_mean(holding.busy_percent for holding in theirs),
        idle_gpus=len(idle),
        idle_seconds=_longest(holding.idle_seconds for holding in idle),
        since=min((start for start in starts if start is not None), default=None),
    )


def _start(process: Process, node: NodeView, now: float) -> float | None:
    """Return the start of a process by the clock of the view; its node has reported its own."""
    if process.started_at is None or node.taken_at is None or node.age_seconds is None:
        return process.started_at
    skew = now - node.age_seconds - node.taken_at
    # Less is the time that a report takes: the start must not change with every report.
    return process.started_at + (skew if abs(skew) > _MAX_DELAY_SECONDS else 0.0)


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; `None` if one of them is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _mean(percents: Iterable[float | None]) -> float | None:
    known = [percent for percent in percents if percent is not None]
    return sum(known) / len(known) if known else None


def _longest(lengths: Iterable[float | None]) -> float | None:
    return max((length for length in lengths if length is not None), default=None)
