"""A synthetic month of a cluster with known usage: who held which GPU, and when nodes reported.

Jobs of several users on 1 to 4 GPUs of a node, some with idle hours, some sharing a GPU, some
on MIG instances; nodes that are silent for hours, some of which deliver their reports later.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from fleet_smi.model.snapshot import Gpu, Host, Instance, Process, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot

DAY = 24 * HOUR
START = NOON // DAY * DAY
USERS = {f"user{number:02d}": f"group{number % 4}" for number in range(6)}
PROFILE, SLICES = "3g.40gb", 3 / 7
_CARDS, _LAST_NODE_CARDS, _SPLIT_CARDS = 8, 4, 2
_LONGEST_HOURS = 60.0
_HOST = Host(cpu_percent=30.0, memory_used_bytes=200 * GIB, memory_total_bytes=1000 * GIB)
TimeSpan = tuple[float, float]


class SyntheticJob(Struct, frozen=True, kw_only=True):
    """One process on one or more devices; idle during `idle`."""

    pid: int
    user: str
    start: float
    end: float
    idle: TimeSpan | None = None

    def is_busy(self, at: float) -> bool:
        """Whether it computes at a time at which it runs."""
        return self.idle is None or not self.idle[0] <= at < self.idle[1]


class Outage(Struct, frozen=True):
    """A time in which the hub gets no reports; they are `buffered` and come later, or are lost."""

    start: float
    end: float
    buffered: bool


class Segment(Struct, frozen=True):
    """A time in which nothing changes on a device: its jobs, and whether one computes."""

    start: float
    end: float
    jobs: tuple[SyntheticJob, ...]
    is_busy: bool
    reported: bool


class SyntheticDevice(Struct, kw_only=True):
    """A GPU or a MIG instance: whatever has its own state."""

    uuid: str
    node: int
    index: int
    weight: float = 1.0
    parent: str | None = None
    jobs: list[SyntheticJob] = []
    segments: list[Segment] = []

    def segment_at(self, at: float) -> Segment:
        """Return the segment that contains a time."""
        return self.segments[bisect_right(self.segments, at, key=lambda one: one.start) - 1]


class SyntheticMonth(Struct, kw_only=True):
    """The truth from `START` to `end`, of which nodes report samples every interval."""

    end: float
    interval_seconds: float
    devices: list[list[SyntheticDevice]]
    outages: list[list[Outage]]

    def gpu_seconds(self) -> dict[str, float]:
        """Return each user's GPU-seconds in reported time; a shared GPU is divided equally."""
        had = dict.fromkeys(USERS, 0.0)
        for segment, weight in self._reported_segments():
            users = {job.user for job in segment.jobs}
            for user in users:
                had[user] += weight * (segment.end - segment.start) / len(users)
        return had

    def observed_seconds(self) -> float:
        """Return the total reported time of all GPUs."""
        return sum(weight * (one.end - one.start) for one, weight in self._reported_segments())

    def sampling_error(self, user: str) -> float:
        """Return the standard deviation of a user's GPU-seconds that sampling alone causes.

        Start and end of a job are each seen up to one interval late, on all its GPUs together:
        the difference of two such uniform delays has a deviation of interval / sqrt(6).
        """
        seats: dict[int, float] = {}
        for seat in (one for node in self.devices for one in node):
            for job in seat.jobs:
                if job.user == user:
                    seats[job.pid] = seats.get(job.pid, 0.0) + seat.weight
        variance = sum(weight**2 for weight in seats.values()) / 6
        return float(self.interval_seconds * variance**0.5)

    def _reported_segments(self) -> Iterator[tuple[Segment, float]]:
        for seat in (one for node in self.devices for one in node):
            for segment in seat.segments:
                if segment.reported:
                    yield segment, seat.weight


class SyntheticSample(Struct, frozen=True):
    """A snapshot of a node, and the outage that it falls into, if any."""

    node: int
    snapshot: Snapshot
    outage: Outage | None


def make_month(
    days: float,
    interval_seconds: float,
    *,
    nodes: int = 13,
    time_scale: float = 1.0,
    seed: int = 1,
) -> SyntheticMonth:
    """Generate a month: 100 GPUs on 13 nodes; two of the last node have two MIG instances.

    `time_scale` makes every job and outage that many times as long.
    """
    chance = random.Random(seed)
    end = START + days * DAY
    seats = [_seats(node, last=node == nodes - 1) for node in range(nodes)]
    for node in seats:
        _fill(node, end, time_scale * HOUR, chance)
    outages = [_outages(end, time_scale * HOUR, chance) for _ in seats]
    for node, silences in zip(seats, outages, strict=True):
        for seat in node:
            seat.segments = list(_segments(seat, end, silences))
    return SyntheticMonth(
        end=end, interval_seconds=interval_seconds, devices=seats, outages=outages
    )


def samples(month: SyntheticMonth, seed: int = 2) -> Iterator[list[SyntheticSample]]:
    """Yield the samples of all nodes, interval by interval, without those that are lost."""
    chance = random.Random(seed)
    pace = month.interval_seconds
    nodes = [_Node(month, number) for number in range(len(month.devices))]
    # Phase and jitter together stay below one interval, so that each step has one sample per node.
    phases = sorted(chance.uniform(0, 0.9 * pace) for _ in nodes)
    for step in range(int((month.end - START) / pace)):
        at = START + step * pace
        delays = [phase + chance.uniform(0, 0.05 * pace) for phase in phases]
        seen = [node.sample(step, at + late) for node, late in zip(nodes, delays, strict=True)]
        yield [one for one in seen if one.outage is None or one.outage.buffered]


class _Node:
    """One node's samples; GPUs are built again only when something changed."""

    def __init__(self, month: SyntheticMonth, number: int) -> None:
        self._number, self._pace = number, month.interval_seconds
        self._seats, self._outages = month.devices[number], month.outages[number]
        self._cards: tuple[Gpu, ...] = ()
        self._until = START

    def sample(self, step: int, at: float) -> SyntheticSample:
        if at >= self._until:
            now = {seat.uuid: seat.segment_at(at) for seat in self._seats}
            self._cards = tuple(_cards(self._seats, now))
            self._until = min(one.end for one in now.values())
        made = snapshot(
            *self._cards,
            node=f"gpu{self._number:02d}",
            taken_at=at,
            sequence=step,
            run_id="run",
            interval_seconds=self._pace,
            host=_HOST,
        )
        outages = (one for one in self._outages if one.start <= at < one.end)
        return SyntheticSample(self._number, made, next(outages, None))


def _seats(node: int, *, last: bool) -> list[SyntheticDevice]:
    seats: list[SyntheticDevice] = []
    for index in range(_LAST_NODE_CARDS if last else _CARDS):
        uuid = f"GPU-{node:02d}-{index}"
        if not last or index >= _SPLIT_CARDS:
            seats.append(SyntheticDevice(uuid=uuid, node=node, index=index))
            continue
        seats.append(SyntheticDevice(uuid=uuid, node=node, index=index, weight=1 - 2 * SLICES))
        seats += [
            SyntheticDevice(
                uuid=f"MIG-{uuid}-{part}", node=node, index=index, weight=SLICES, parent=uuid
            )
            for part in (1, 2)
        ]
    return seats


def _fill(seats: Sequence[SyntheticDevice], end: float, hour: float, chance: random.Random) -> None:
    """Fill the devices of a node with jobs until the end of the month."""
    split = {seat.parent for seat in seats}
    free_at = {seat.uuid: START for seat in seats if seat.uuid not in split}
    by_uuid = {seat.uuid: seat for seat in seats}
    pid = 1000
    while (begins := min(free_at.values())) < end:
        count = chance.choice((1, 1, 1, 2, 2, 4))
        chosen = sorted(free_at, key=free_at.__getitem__)[:count]
        start = max(begins, *[free_at[uuid] for uuid in chosen], START)
        start += chance.expovariate(1 / hour)
        length = min(_LONGEST_HOURS, chance.expovariate(1 / 5) + 0.25) * hour
        pid += 2
        job = _job(pid, start, start + length, chance)
        for uuid in chosen:
            by_uuid[uuid].jobs.append(job)
            free_at[uuid] = job.end
        if job.idle is None and chance.random() < 0.25:
            by_uuid[chosen[0]].jobs.append(_guest(job, chance))


def _job(pid: int, start: float, end: float, chance: random.Random) -> SyntheticJob:
    idle, kind = None, chance.random()
    if kind < 0.05:
        idle = (start, end)
    elif kind < 0.3:
        idle = (start + 0.4 * (end - start), start + chance.uniform(0.6, 0.9) * (end - start))
    return SyntheticJob(pid=pid, user=chance.choice([*USERS]), start=start, end=end, idle=idle)


def _guest(host: SyntheticJob, chance: random.Random) -> SyntheticJob:
    """Return a job that shares a GPU with `host` for a while."""
    first, last = sorted(chance.uniform(host.start, host.end) for _ in range(2))
    return SyntheticJob(pid=host.pid + 1, user=chance.choice([*USERS]), start=first, end=last)


def _outages(end: float, hour: float, chance: random.Random) -> list[Outage]:
    """Return outages of some hours, about every five days; every other one is buffered."""
    found: list[Outage] = []
    at = START + chance.uniform(2, 120) * hour
    while at < end - 6 * hour:
        # It ends hours before the month does, so that buffered reports arrive within the month.
        until = min(at + chance.uniform(1, 10) * hour, end - 3 * hour)
        found.append(Outage(at, until, buffered=len(found) % 2 == 0))
        at = until + chance.uniform(48, 192) * hour
    return found


def _segments(seat: SyntheticDevice, end: float, outages: Sequence[Outage]) -> Iterator[Segment]:
    lost = [(one.start, one.end) for one in outages if not one.buffered]
    idle = [job.idle for job in seat.jobs if job.idle is not None]
    spans = [*[(job.start, job.end) for job in seat.jobs], *idle, *lost]
    times = sorted({START, end, *[at for span in spans for at in span if START < at < end]})
    for start, until in pairwise(times):
        there = tuple(job for job in seat.jobs if job.start <= start < job.end)
        yield Segment(
            start,
            until,
            there,
            any(job.is_busy(start) for job in there),
            not any(one[0] <= start < one[1] for one in lost),
        )


def _cards(seats: Sequence[SyntheticDevice], now: dict[str, Segment]) -> Iterator[Gpu]:
    for seat in seats:
        if seat.parent is not None:
            continue
        parts = [one for one in seats if one.parent == seat.uuid]
        works = now[seat.uuid].is_busy or any(now[part.uuid].is_busy for part in parts)
        yield gpu(
            seat.index,
            uuid=seat.uuid,
            busy_percent=None if parts else 90.0 if works else 0.0,
            power_watts=450.0 if works else 90.0,
            sm_clock_mhz=1700,
            processes=_processes(now[seat.uuid]),
            mig_mode=bool(parts),
            instances=tuple(_instance(part, number, now) for number, part in enumerate(parts, 1)),
        )


def _instance(part: SyntheticDevice, number: int, now: dict[str, Segment]) -> Instance:
    segment = now[part.uuid]
    return instance(
        number,
        uuid=part.uuid,
        profile=PROFILE,
        busy_percent=90.0 if segment.is_busy else 0.0,
        processes=_processes(segment),
    )


def _processes(segment: Segment) -> tuple[Process, ...]:
    return tuple(
        process(job.pid, user=job.user, group=USERS[job.user], started_at=job.start)
        for job in segment.jobs
    )
