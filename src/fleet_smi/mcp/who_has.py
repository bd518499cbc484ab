"""Tool `who_has_gpus`: people and the GPUs that they hold."""

from typing import Annotated

from msgspec import Meta, Struct

from fleet_smi.mcp.answers import cut, gib
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import OutsideText, iso_time, outside, quoted, reason
from fleet_smi.model.candidates import device_label
from fleet_smi.model.people import Holding, PeopleView, Person, view_people
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import format_duration, pluralize

_MAX_PEOPLE, _MAX_GPUS, _MAX_PROCESSES, _MAX_NODES = 50, 50, 4, 12


class WhoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person with all their GPUs and processes."""

    user: Annotated[str, Meta(max_length=128, description="only this person, in detail")] | None = (
        None
    )


class HolderRow(Struct, frozen=True, kw_only=True):
    """One person: how many GPUs, where, how busy, how many of them idle."""

    user: OutsideText
    gpus: int
    idle_gpus: int
    idle_for: str | None
    nodes: tuple[OutsideText, ...]
    memory_gib: float | None
    busy_percent: float | None
    since: str | None


class HeldProcess(Struct, frozen=True, kw_only=True):
    """A process on a GPU."""

    pid: int
    program: OutsideText | None
    command: OutsideText | None
    started: str | None


class HeldGpu(Struct, frozen=True, kw_only=True):
    """A GPU that a person holds, and what runs on it."""

    gpu: OutsideText
    model: OutsideText | None
    state: str
    reason: OutsideText
    memory_gib: float | None
    busy_percent: float | None
    processes: tuple[HeldProcess, ...]
    more_processes: int


class Holders(Struct, frozen=True, kw_only=True):
    """Who holds GPUs, those with the most first."""

    people: tuple[HolderRow, ...]
    more_people: int
    gpus: tuple[HeldGpu, ...] = ()
    more_gpus: int = 0
    silent_nodes: tuple[OutsideText, ...] = ()


def who_has_gpus(access: FleetAccess, asked: WhoArguments) -> tuple[Holders, str]:
    """Return who holds GPUs, as the hub counts them where there is one."""
    if access.hub is not None:
        people = access.hub.people(asked.user)
    else:
        people = view_people(access.view(), asked.user)
    rows, more_people = cut(people.people, _MAX_PEOPLE, _person)
    gpus, more_gpus = cut(people.holdings, _MAX_GPUS, _gpu)
    found = Holders(
        people=rows,
        more_people=more_people,
        gpus=gpus,
        more_gpus=more_gpus,
        silent_nodes=tuple(map(outside, people.silent[:_MAX_NODES])),
    )
    return found, _text(found, people, asked.user)


def _person(person: Person) -> HolderRow:
    idle = person.idle_seconds
    return HolderRow(
        user=outside(person.user),
        gpus=person.gpus,
        idle_gpus=person.idle_gpus,
        idle_for=None if idle is None else format_duration(idle),
        nodes=tuple(map(outside, person.nodes[:_MAX_NODES])),
        memory_gib=gib(person.memory_bytes),
        busy_percent=_percent(person.busy_percent),
        since=iso_time(person.since),
    )


def _gpu(held: Holding) -> HeldGpu:
    verdict = held.gpu.verdict
    processes, more_processes = cut(held.processes, _MAX_PROCESSES, _process)
    return HeldGpu(
        gpu=outside(device_label(held.node.name, held.gpu.index, None)),
        model=outside(held.gpu.name),
        state=verdict.state,
        reason=reason(verdict.reason),
        memory_gib=gib(held.memory_bytes),
        busy_percent=_percent(held.busy_percent),
        processes=processes,
        more_processes=more_processes,
    )


def _process(process: Process) -> HeldProcess:
    return HeldProcess(
        pid=process.pid,
        program=outside(process.name),
        command=outside(process.command),
        started=iso_time(process.started_at),
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _text(found: Holders, people: PeopleView, user: str | None) -> str:
    counts = people.summary
    lines = [f"{counts.free} of {pluralize(counts.gpus, 'GPU')} free."]
    if user is not None and not found.people:
        lines.append(f"{quoted(user)} holds none.")
    for one in found.people:
        idle = f", {one.idle_gpus} idle" if one.idle_gpus else ""
        lines.append(f"- {quoted(one.user)}: {pluralize(one.gpus, 'GPU')}{idle}")
    lines += [f"  - {quoted(one.gpu)} {one.state}: {one.reason}" for one in found.gpus]
    if found.more_people or found.more_gpus:
        lines.append(f"({found.more_people} more people, {found.more_gpus} more GPUs)")
    return "\n".join(lines)
