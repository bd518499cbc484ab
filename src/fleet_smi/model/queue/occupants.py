"""Who has the GPUs of a node, since when, and until when that was declared. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fleet_smi.model.candidates import node_devices
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.people import HIDDEN_USER, owners
from fleet_smi.model.queue.estimate import NodeOutlook, RunningJob
from fleet_smi.model.queue.places import Place
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.views import NodeParts

_MAX_DELAY_SECONDS = 3.0
_SAME_START_SECONDS = 120.0
_NOT_OCCUPIED = ("free", "broken", "unknown")


class GpuOccupant(NamedTuple):
    """The people on one GPU or instance, and its times by the clock of the hub."""

    people: tuple[str, ...]
    since: float | None
    until: float | None


def node_occupants(parts: NodeParts, now: float) -> dict[str, GpuOccupant]:
    """Return the occupant of each GPU and instance of a node that is taken, by UUID."""
    shift = _clock_shift(parts.node, now)
    found: dict[str, GpuOccupant] = {}
    for _, _, device, verdict in node_devices(parts):
        if verdict.state not in _NOT_OCCUPIED:
            found[device.uuid] = _occupant(device, shift)
    return found


def _occupant(device: Gpu | Instance, shift: float) -> GpuOccupant:
    processes = device.processes or ()
    starts = [each.started_at for each in processes if each.started_at is not None]
    lease = device.lease
    if lease is not None:
        until = None if lease.until is None else lease.until + shift
        return GpuOccupant((lease.holder,), lease.taken_at + shift, until)
    people = owners(processes) or (HIDDEN_USER,)
    return GpuOccupant(people, min(starts) + shift if starts else None, None)


def _clock_shift(node: NodeView, now: float) -> float:
    """Return how far the clock of the hub is ahead of the node's; small delays are none."""
    if node.taken_at is None or node.age_seconds is None:
        return 0.0
    shift = now - node.age_seconds - node.taken_at
    return shift if abs(shift) > _MAX_DELAY_SECONDS else 0.0


def held_gpus(nodes: Iterable[Mapping[str, GpuOccupant]]) -> dict[str, float]:
    """Return how many GPUs each person holds; one that several share is divided."""
    found: dict[str, float] = {}
    for occupants in nodes:
        for occupant in occupants.values():
            for person in occupant.people:
                found[person] = found.get(person, 0.0) + 1.0 / len(occupant.people)
    return found


def held_hours(nodes: Iterable[Mapping[str, GpuOccupant]], now: float) -> dict[str, float]:
    """Return for how many GPU-hours each person has had what they hold now."""
    found: dict[str, float] = {}
    for occupants in nodes:
        for occupant in occupants.values():
            since = now if occupant.since is None else occupant.since
            hours = max(0.0, now - since) / 3600.0 / len(occupant.people)
            for person in occupant.people:
                found[person] = found.get(person, 0.0) + hours
    return found


def node_outlook(
    place: Place, occupants: Mapping[str, GpuOccupant], taken: Collection[str], now: float
) -> NodeOutlook:
    """Return what a request can expect of a node; `taken` are free GPUs that others are given.

    Of those that are booked, `occupants` has the end.
    """
    jobs: dict[tuple[str, int], tuple[int, GpuOccupant]] = {}
    for uuid in (*place.used, *[each for each in place.free if each in taken]):
        occupant = occupants.get(uuid)
        if occupant is None or occupant.since is None:
            continue  # nothing is known of when it ends
        # GPUs that one person took together are one job, and become free together.
        key = occupant.people[0], int(occupant.since // _SAME_START_SECONDS)
        gpus = jobs[key][0] if key in jobs else 0
        jobs[key] = gpus + 1, occupant
    running = [
        RunningJob(
            occupant.people[0],
            gpus,
            now - (occupant.since or now),
            None if occupant.until is None else occupant.until - now,
        )
        for gpus, occupant in jobs.values()
    ]
    free = sum(uuid not in taken for uuid in place.free)
    return NodeOutlook(free, running)
