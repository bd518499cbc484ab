"""A simulated lab: people with jobs, nodes with GPUs, and a policy that says goes next. Pure."""

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fleet_smi.model.queue.entries import QueueEntry, QueueRequest
from fleet_smi.model.queue.places import Place
from fleet_smi.model.queue.plan import plan_queue
from fleet_smi.model.queue.use import PastUse, decay

HOUR, DAY = 3600.0, 86_400.0
Start = tuple["Job", str, tuple[str, ...]]
"""A job, the node that it begins on, and its GPUs there."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """GPUs of one node for a time, wanted at some time."""

    id: str
    person: str
    gpus: int
    seconds: float
    wanted_at: float
    declared_hours: float | None = None


@dataclass
class Run:
    """A job that has begun."""

    job: Job
    node: str
    uuids: tuple[str, ...]
    began_at: float

    @property
    def end(self) -> float:
        return self.began_at + self.job.seconds


@dataclass
class Lab:
    """The state of a simulated lab at one time."""

    nodes: dict[str, tuple[str, ...]]
    now: float = 0.0
    waiting: list[Job] = field(default_factory=list)
    running: list[Run] = field(default_factory=list)
    ended: list[Run] = field(default_factory=list)
    use_hours: dict[str, float] = field(default_factory=dict)

    def free(self, node: str) -> tuple[str, ...]:
        """The GPUs of a node on which nothing runs."""
        taken = {uuid for run in self.running if run.node == node for uuid in run.uuids}
        return tuple([uuid for uuid in self.nodes[node] if uuid not in taken])

    def places(self) -> list[Place]:
        """Where any request could be met."""
        return [Place(node, node, self.free(node), len(self.nodes[node])) for node in self.nodes]

    def advance(self, now: float) -> None:
        """Let time pass: use is counted and decays."""
        passed = now - self.now
        for person in self.use_hours:
            self.use_hours[person] = decay(self.use_hours[person], passed)
        for run in self.running:
            person = run.job.person
            self.use_hours[person] = self.use_hours.get(person, 0.0) + (
                run.job.gpus * passed / HOUR
            )
        self.now = now


Policy = Callable[[Lab], list[Start]]


def first_come(lab: Lab) -> list[Start]:
    """Plain FIFO: nobody passes the one who came first."""
    return _in_order(lab, stop_at_first=True)


def first_fit(lab: Lab) -> list[Start]:
    """In the order of arrival, but whoever fits goes."""
    return _in_order(lab, stop_at_first=False)


def _in_order(lab: Lab, *, stop_at_first: bool) -> list[Start]:
    free = {place.node: list(place.free) for place in lab.places()}
    started: list[Start] = []
    for job in sorted(lab.waiting, key=lambda each: (each.wanted_at, each.id)):
        nodes = [node for node in free if len(free[node]) >= job.gpus]
        if not nodes:
            if stop_at_first:
                break
            continue
        node = min(nodes, key=lambda each: len(free[each]))
        started.append((job, node, tuple(free[node][: job.gpus])))
        del free[node][: job.gpus]
    return started


def fair_share(lab: Lab) -> list[Start]:
    """The queue of fleet-smi."""
    entries = [_entry(job) for job in lab.waiting]
    jobs = {job.id: job for job in lab.waiting}
    held: dict[str, float] = {}
    for run in lab.running:
        held[run.job.person] = held.get(run.job.person, 0.0) + run.job.gpus
    places = lab.places()
    hours = PastUse(lab.use_hours, lab.now).hours(lab.now, held)
    decisions = plan_queue(entries, hours, lambda _: places, lab.now)
    return [
        (jobs[each.entry.id], each.place.node, each.uuids)
        for each in decisions
        if each.uuids and each.place is not None
    ]


def _entry(job: Job) -> QueueEntry:
    request = QueueRequest(count=job.gpus, max_hours=job.declared_hours)
    return QueueEntry(
        id=job.id,
        person=job.person,
        request=request,
        arrived_at=job.wanted_at,
        seen_at=job.wanted_at,
    )


def simulate(
    nodes: dict[str, tuple[str, ...]],
    jobs: Sequence[Job],
    policy: Policy,
    until: float,
    *,
    waiting_limit: int = 10,
    on_change: Callable[[Lab], None] = lambda _: None,
) -> Lab:
    """Run the jobs until a time; of each person at most so many wait in the queue at once."""
    lab = Lab(nodes)
    later = sorted(jobs, key=lambda job: (job.wanted_at, job.id))
    later.reverse()
    held_back: list[Job] = []
    ends: list[tuple[float, int, Run]] = []
    count = 0
    while (later or ends) and lab.now < until:
        times = [later[-1].wanted_at] if later else []
        times += [ends[0][0]] if ends else []
        lab.advance(min(*times, until) if len(times) > 1 else min(times[0], until))
        while ends and ends[0][0] <= lab.now:
            run = heapq.heappop(ends)[2]
            lab.running.remove(run)
            lab.ended.append(run)
        while later and later[-1].wanted_at <= lab.now:
            held_back.append(later.pop())
        changed = True
        while changed:
            _admit(lab, held_back, waiting_limit)
            started = policy(lab)
            changed = bool(started)
            for job, node, uuids in started:
                lab.waiting.remove(job)
                run = Run(job, node, uuids, lab.now)
                lab.running.append(run)
                count += 1
                heapq.heappush(ends, (run.end, count, run))
        on_change(lab)
    return lab


def _admit(lab: Lab, held_back: list[Job], limit: int) -> None:
    counts: dict[str, int] = {}
    for job in lab.waiting:
        counts[job.person] = counts.get(job.person, 0) + 1
    for job in list(held_back):
        if counts.get(job.person, 0) < limit:
            counts[job.person] = counts.get(job.person, 0) + 1
            held_back.remove(job)
            lab.waiting.append(job)


def make_nodes(count: int, gpus: int) -> dict[str, tuple[str, ...]]:
    """Return nodes of equal size."""
    return {
        f"gpu{number:02d}": tuple([f"gpu{number:02d}:{index}" for index in range(gpus)])
        for number in range(1, count + 1)
    }


def lognormal_hours(source: random.Random, median_hours: float, spread: float) -> float:
    """Return a random duration in seconds, with this median."""
    return median_hours * HOUR * source.lognormvariate(0.0, spread)
