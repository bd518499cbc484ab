"""When will GPUs be free? An estimate from past jobs, declared ends and bookings, with its chance.

A job that has run for 3 hours ends as those jobs of its user did that ran for more than 3 hours.
The chance that a node has enough free GPUs by a time follows from the chances of its jobs. What is
said is the first time by which that is likely; where the past says too little, nothing is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

MIN_SAMPLES = 8
"""Fewer past jobs that lasted as long say nothing."""
MIN_CHANCE = 0.7
HORIZON_SECONDS = 7 * 86_400.0
_MAX_SAMPLES = 500
_PRIOR_SAMPLES = 60
_EARLY_CHANCE = 0.1
# Jobs are not independent: those of one person, or before a deadline, last longer together.
_TRUST = 0.97
_MINUTE, _HOUR = 60.0, 3600.0
_GRID: tuple[float, ...] = (
    *(minutes * _MINUTE for minutes in (5, 10, 15, 20, 30, 40, 50, 60, 75, 90, 105)),
    *(hours * _HOUR for hours in (2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 21, 24)),
    *(hours * _HOUR for hours in (28, 32, 36, 42, 48, 60, 72, 96, 120, 144, 168)),
)
"""The times from now that are considered: nobody plans to the minute for tomorrow."""


class Expected(Struct, frozen=True, kw_only=True):
    """When a request can probably be met: `by` that time in `of_ten` of ten cases.

    Both are `None` where that is not known. `not_before` is the time before which it is unlikely.
    """

    by: float | None = None
    of_ten: int | None = None
    not_before: float | None = None


UNKNOWN = Expected()


class RunningJob(NamedTuple):
    """GPUs of one node that become free together.

    `elapsed_seconds` is how long they have been held; `declared_seconds` how much longer they are
    declared to be, `None` if that is not said. `gpus` counts those that the request could use.
    """

    person: str
    gpus: int
    elapsed_seconds: float
    declared_seconds: float | None = None


class PastJobs:
    """How long the jobs of each person took, in seconds."""

    def __init__(self, durations: Iterable[tuple[str, float]]) -> None:
        by_person: dict[str, list[float]] = {}
        everybody: list[float] = []
        for person, seconds in durations:
            if seconds > 0:
                by_person.setdefault(person, []).append(seconds)
                everybody.append(seconds)
        # The latest: people change what they do.
        self._by_person = {
            person: sorted(found[-_MAX_SAMPLES:]) for person, found in by_person.items()
        }
        self._everybody = sorted(everybody[-4 * _MAX_SAMPLES :])

    def remaining(self, job: RunningJob) -> list[float] | None:
        """Return how much longer such jobs took, ascending; `None` where too few are known."""
        elapsed = max(0.0, job.elapsed_seconds)
        own = _longer_than(self._by_person.get(job.person, ()), elapsed)
        if len(own) < MIN_SAMPLES:
            # With a few of everybody's: a newcomer works as others here do.
            others = _longer_than(self._everybody, elapsed)
            if len(others) < MIN_SAMPLES:
                own = []
            else:
                step = max(1, len(others) // _PRIOR_SAMPLES)
                own = sorted([*own * 4, *others[::step]])
        if job.declared_seconds is not None and job.declared_seconds > 0:
            return _declared(own, job.declared_seconds)
        return own or None


def _longer_than(durations: Sequence[float], elapsed: float) -> list[float]:
    return [each - elapsed for each in durations[bisect_right(durations, elapsed) :]]


def _declared(samples: list[float], declared: float) -> list[float]:
    """Combine the past with a declared end: few jobs last longer than was declared."""
    # One in ten does; of the others, those that ended earlier are as likely as they were.
    within = [each for each in samples if each < declared]
    if len(within) < MIN_SAMPLES // 2:
        return [declared] * 27 + [2 * declared] * 3
    late = max(1, len(within) // 9)
    return [*within, *[declared] * (len(samples) - len(within)), *[2 * declared] * late]


class Upcoming(NamedTuple):
    """A booking that begins later: from and until when, in seconds from now, and how many GPUs."""

    begins: float
    ends: float
    gpus: int


class NodeOutlook(NamedTuple):
    """What a request can expect of one node: free GPUs that it could use, and jobs on others.

    `bookings` are those of others that have not begun.
    """

    free: int
    jobs: Sequence[RunningJob]
    bookings: Sequence[Upcoming] = ()

    def booked(self, seconds: float) -> int:
        """Return how many GPUs are booked at a time from now."""
        return sum([each.gpus for each in self.bookings if each.begins <= seconds < each.ends])


def estimate(
    count: int, ahead: int, nodes: Sequence[NodeOutlook], past: PastJobs, now: float
) -> Expected:
    """Return when `count` GPUs of one node are probably free, after `ahead` GPUs for others."""
    outlooks = [node for node in nodes if node.free + sum(job.gpus for job in node.jobs) >= count]
    if not outlooks:
        return UNKNOWN
    remaining = [[past.remaining(job) for job in node.jobs] for node in outlooks]
    early, found = None, None
    for seconds in _GRID:
        chance = _chance(count, ahead, outlooks, remaining, seconds)
        if early is None and chance > _EARLY_CHANCE:
            early = seconds
        if chance >= MIN_CHANCE:
            found = seconds, chance
            break
    # A job of which nothing is known may end at any moment.
    is_known = all(each is not None for times in remaining for each in times)
    not_before = _before(early, now) if is_known else None
    if found is None:
        return Expected(not_before=not_before)
    of_ten = min(9, int(found[1] * 10))
    return Expected(by=now + found[0], of_ten=of_ten, not_before=not_before)


def _before(early: float | None, now: float) -> float | None:
    """Return the last considered time before it becomes possible; `None` if that is now."""
    if early is None:
        return now + HORIZON_SECONDS
    earlier = [seconds for seconds in _GRID if seconds < early]
    return now + earlier[-1] if earlier else None


def _chance(
    count: int,
    ahead: int,
    nodes: Sequence[NodeOutlook],
    remaining: Sequence[Sequence[list[float] | None]],
    seconds: float,
) -> float:
    """Return the chance that it can be met within a time."""
    nowhere, free, all_jobs = 1.0, 0, list[tuple[int, float]]()
    for node, times in zip(nodes, remaining, strict=True):
        jobs = [
            (job.gpus, _ended(left, seconds)) for job, left in zip(node.jobs, times, strict=True)
        ]
        left = node.free - node.booked(seconds)
        nowhere *= 1.0 - chance_of_at_least(count - left, jobs)
        free += left
        all_jobs += jobs
    chance = 1.0 - nowhere
    if ahead:
        # Those ahead take as many first, wherever they are.
        chance = min(chance, chance_of_at_least(count + ahead - free, all_jobs))
    return _TRUST * chance


def _ended(remaining: list[float] | None, seconds: float) -> float:
    """Return the chance that a job has ended; one of which nothing is known has not."""
    # As if one more had lasted longer than all that are known.
    return 0.0 if not remaining else bisect_right(remaining, seconds) / (len(remaining) + 1)


def chance_of_at_least(needed: int, jobs: Iterable[tuple[int, float]]) -> float:
    """Return the chance that jobs which end free at least so many GPUs; each is independent."""
    if needed <= 0:
        return 1.0
    # The chance of each number of free GPUs below what is needed.
    below = [1.0] + [0.0] * (needed - 1)
    for gpus, ended in jobs:
        if ended <= 0.0 or gpus <= 0:
            continue
        for number in range(needed - 1, -1, -1):
            from_fewer = below[number - gpus] * ended if number >= gpus else 0.0
            below[number] = below[number] * (1.0 - ended) + from_fewer
    return max(0.0, min(1.0, 1.0 - sum(below)))


def past_jobs_from(durations: Mapping[str, Sequence[float]]) -> PastJobs:
    """Return the past jobs of each person, the oldest first."""
    return PastJobs((person, each) for person, found in durations.items() for each in found)
