"""Users and what they hold: the owners of the processes of a fleet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, Summary, Verdict
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.verdict.readings import is_display, is_service, total_process_memory
from fleet_smi.model.views import NodeParts, split_node_view

HIDDEN_USER = "(unseen)"
_TAKEN = ("busy", "held", "ghost")
_SINGLE = ("free", *_TAKEN)
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


class HoldingBrief(Struct, frozen=True, kw_only=True, gc=False):
    """What is counted of a holding; `since` is when its first process began, by the hub's clock."""

    user: str
    memory_bytes: int | None
    busy_percent: float | None
    idle: bool
    idle_seconds: float | None
    since: float | None


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
    people = (one for one in people_in_view(view) if user in (None, one.user))
    theirs = () if user is None else (one for node in view.nodes for one in holdings_of(user, node))
    return PeopleView(
        taken_at=view.taken_at,
        summary=view.summary,
        people=tuple(people),
        holdings=tuple(theirs),
        silent=tuple(node.name for node in view.nodes if node.silent),
        failures=tuple(f"{node.name}: {text}" for node in view.nodes for text in node.failures),
    )


def people_in_view(view: FleetView) -> tuple[Person, ...]:
    """Return the users of all reporting nodes, those with the most GPUs first."""
    return people_from_briefs(
        (node.name, brief)
        for node in view.nodes
        for brief in holding_briefs(split_node_view(node), view.taken_at)
    )


def people_from_briefs(holdings: Iterable[tuple[str, HoldingBrief]]) -> tuple[Person, ...]:
    """Return the users of these holdings, each with the name of its node, most GPUs first."""
    by_user: dict[str, list[tuple[str, HoldingBrief]]] = {}
    for entry in holdings:
        by_user.setdefault(entry[1].user, []).append(entry)
    people = (_person(user, theirs) for user, theirs in by_user.items())
    return tuple(sorted(people, key=lambda person: (not person.seen, -person.gpus, person.user)))


def holding_briefs(parts: NodeParts, now: float) -> list[HoldingBrief]:
    """Return what is counted of the holdings on a node at `now`; none while it is silent."""
    gpus = () if parts.node.silent else parts.gpus
    return [
        HoldingBrief(
            user=claim.user,
            memory_bytes=claim.memory_bytes,
            busy_percent=claim.busy_percent,
            idle=claim.idle,
            idle_seconds=claim.idle_seconds,
            since=_first_start(claim.processes, parts.node, now),
        )
        for gpu, verdict in gpus
        for claim in _claims(gpu, verdict, parts.verdicts)
    ]


def node_users(parts: NodeParts) -> Iterator[tuple[str, bool]]:
    """Yield the user of each holding on a node, and whether it is idle."""
    for gpu, verdict in () if parts.node.silent else parts.gpus:
        yield from gpu_users(gpu, verdict, parts.verdicts)


def gpu_users(
    gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict]
) -> list[tuple[str, bool]]:
    """Return the user of each holding on a GPU, and whether it is idle.

    `verdicts` has those on its instances, by UUID.
    """
    processes = gpu.processes
    # Most GPUs have one process of one user, or none: no list is needed to find its owner.
    if verdict.state in _SINGLE and not verdict.notes and not gpu.instances:
        if verdict.state == "free":
            return []
        if processes and len(processes) == 1:
            return [(owner(processes[0]), verdict.state == "held")]
    return [(claim.user, claim.idle) for claim in _claims(gpu, verdict, verdicts)]


def holdings_of(user: str, node: NodeView) -> list[Holding]:
    """Return the holdings of one user on a node, each without the other GPUs of the node."""
    found = [one for one in node_holdings(node) if one.user == user]
    # A node has every GPU of every user: one person's holdings would carry them all again.
    return [replace(one, node=replace(one.node, gpus=())) for one in found]


def node_holdings(node: NodeView) -> list[Holding]:
    """Return the holdings on the GPUs of a node; none while it is silent."""
    parts = split_node_view(node)
    return [
        Holding(node=node, gpu=gpu, **asdict(claim))
        for gpu in (() if node.silent else node.gpus)
        for claim in _claims(gpu, gpu.verdict, parts.verdicts)
    ]


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


class _Claim(Struct, frozen=True, kw_only=True, gc=False):
    """What one user holds on one GPU, without that GPU."""

    user: str
    processes: tuple[Process, ...]
    memory_bytes: int | None
    busy_percent: float | None
    idle: bool
    idle_seconds: float | None


def _claims(gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict]) -> list[_Claim]:
    if not gpu.instances:
        return list(_claims_on_part(gpu, verdict, gpu.processes or ()))
    by_user: dict[str, list[_Claim]] = {}
    for part, processes in _parts(gpu):
        judged = verdict if part is gpu else verdicts[part.uuid]
        for claim in _claims_on_part(part, judged, processes):
            by_user.setdefault(claim.user, []).append(claim)
    return [_merged(theirs) for theirs in by_user.values()]


def _parts(gpu: Gpu) -> Iterator[tuple[Gpu | Instance, Sequence[Process]]]:
    """Yield each device with a verdict of its own, and the processes on it alone."""
    inside: set[int] = set()
    for instance in gpu.instances:
        processes = instance.processes or ()
        inside.update(process.pid for process in processes)
        yield instance, processes
    # The driver lists the processes of instances under the whole GPU too: count them once.
    rest = [process for process in gpu.processes or () if process.pid not in inside]
    if rest:
        yield gpu, rest


def _claims_on_part(
    part: Gpu | Instance, verdict: Verdict, processes: Sequence[Process]
) -> Iterator[_Claim]:
    state, by_user = verdict.state, dict[str, list[Process]]()
    if state == "free" or any(note.kind == "vacated" for note in verdict.notes):
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
        idle, idle_seconds = state == "held", verdict.idle_seconds
        for note in verdict.notes:
            # Idle beside somebody who works: the GPU is busy, this user is not.
            if note.user == user and note.kind == "idle_user":
                idle, idle_seconds = True, note.idle_seconds
        yield _Claim(
            user=user,
            processes=tuple(theirs),
            memory_bytes=_memory(part, theirs),
            busy_percent=_busy(part, theirs, alone=len(by_user) == 1),
            idle=idle,
            idle_seconds=idle_seconds if idle else None,
        )


def _memory(part: Gpu | Instance, theirs: list[Process]) -> int | None:
    if not theirs:
        return part.memory_used_bytes
    return total_process_memory(theirs)


def _busy(part: Gpu | Instance, theirs: list[Process], *, alone: bool) -> float | None:
    """Return the device's utilisation; of a shared one only theirs, where it is measured."""
    own = [process.busy_percent for process in theirs]
    measured = [percent for percent in own if percent is not None]
    # A sum over some of the processes would be too low: then the device's own figure is used.
    if alone or not measured or len(measured) < len(own):
        return part.busy_percent
    return min(100.0, sum(measured))


def _merged(theirs: list[_Claim]) -> _Claim:
    """Merge what one user holds on several instances of one GPU."""
    first = theirs[0]
    if len(theirs) == 1:
        return first
    return _Claim(
        user=first.user,
        processes=tuple(process for one in theirs for process in one.processes),
        memory_bytes=_total(one.memory_bytes for one in theirs),
        busy_percent=_mean(one.busy_percent for one in theirs),
        idle=all(one.idle for one in theirs),
        idle_seconds=_longest(one.idle_seconds for one in theirs),
    )


def _person(user: str, theirs: list[tuple[str, HoldingBrief]]) -> Person:
    held = [brief for _, brief in theirs]
    idle = [brief for brief in held if brief.idle]
    return Person(
        user=user,
        seen=user != HIDDEN_USER,
        gpus=len(held),
        nodes=tuple(dict.fromkeys(node for node, _ in theirs)),
        memory_bytes=_total(brief.memory_bytes for brief in held),
        busy_percent=_mean(brief.busy_percent for brief in held),
        idle_gpus=len(idle),
        idle_seconds=_longest(brief.idle_seconds for brief in idle),
        since=min((brief.since for brief in held if brief.since is not None), default=None),
    )


def _first_start(processes: Iterable[Process], node: NodeView, now: float) -> float | None:
    """Return when the first of them began by the clock of the view; the node reports its own."""
    starts = [process.started_at for process in processes if process.started_at is not None]
    if not starts:
        return None
    first = min(starts)
    if node.taken_at is None or node.age_seconds is None:
        return first
    skew = now - node.age_seconds - node.taken_at
    # Less is the time that a report takes: the start must not change with every report.
    return first + (skew if abs(skew) > _MAX_DELAY_SECONDS else 0.0)


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
