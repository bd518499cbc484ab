"""`python -m bench.estimate_calibration`: how often the estimate of the queue was right.

Simulated months of eight people with different habits, of whom nothing is known at first. Every
hour somebody asks when 1, 2, 4 or 8 GPUs of a node will be free; what was said is compared with
what happened, as if nobody had taken them first.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.queue_simulation import (
    DAY,
    HOUR,
    Job,
    Lab,
    Run,
    first_fit,
    lognormal_hours,
    make_nodes,
    simulate,
)
from bench.report import format_table
from fleet_smi.model.queue.estimate import (
    Expected,
    NodeOutlook,
    PastJobs,
    RunningJob,
    estimate,
)

DAYS, WARM_UP_DAYS = 30, 0.125
COUNTS = (1, 2, 4, 8)
_NODES, _GPUS = 4, 8
_MONTHS = 6


@dataclass
class Calibration:
    """What was said, and how often it came true."""

    said: Counter[int] = field(default_factory=Counter)
    came_true: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    lead_seconds: list[float] = field(default_factory=list)
    late_seconds: list[float] = field(default_factory=list)

    def add(self, expected: Expected, now: float, happened_at: float | None) -> None:
        """Count one answer; `happened_at` is `None` if it did not happen at all."""
        if expected.by is None or expected.of_ten is None:
            self.unknown += 1
            return
        self.said[expected.of_ten] += 1
        self.lead_seconds.append(expected.by - now)
        if happened_at is not None and happened_at <= expected.by:
            self.came_true[expected.of_ten] += 1

    def merge(self, other: "Calibration") -> None:
        """Add what was said and came true in another month."""
        self.said += other.said
        self.came_true += other.came_true
        self.unknown += other.unknown
        self.lead_seconds += other.lead_seconds

    def share(self, of_ten: int) -> float:
        """The share of the answers with this chance that came true."""
        return self.came_true[of_ten] / self.said[of_ten]


def make_jobs(seed: int = 7) -> list[Job]:
    """Return the jobs of a month: each person has habits of their own."""
    source = random.Random(seed)
    jobs: list[Job] = []
    # Person, GPUs, median hours, spread, jobs per day, share of jobs that declare their hours.
    habits = (
        ("ana", 1, 2.0, 0.4, 24.0, 0.5),
        ("bob", 4, 14.0, 0.5, 2.0, 0.0),
        ("cleo", 2, 6.0, 0.3, 8.0, 1.0),
        ("dan", 1, 0.5, 0.8, 20.0, 0.0),
        ("eve", 8, 20.0, 0.4, 0.7, 0.3),
        ("finn", 1, 24.0, 1.2, 3.0, 0.0),
        ("gus", 2, 3.0, 0.6, 8.0, 0.0),
    )
    for person, gpus, hours, spread, per_day, declares in habits:
        at = 0.0
        while (at := at + source.expovariate(per_day) * DAY) < DAYS * DAY:
            seconds = lognormal_hours(source, hours, spread)
            declared = None
            if source.random() < declares:
                declared = seconds / HOUR * source.uniform(0.9, 1.6)
            jobs.append(
                Job(
                    id=f"{person}{len(jobs):05d}",
                    person=person,
                    gpus=gpus,
                    seconds=seconds,
                    wanted_at=at,
                    declared_hours=declared,
                )
            )
    # Somebody whose jobs are either minutes or days: what ends soon cannot be told at first.
    for day in range(DAYS):
        for _ in range(4):
            hours = source.choice((0.1, 0.2, 40.0))
            at = day * DAY + source.uniform(0, DAY)
            name = f"hal{len(jobs):05d}"
            jobs.append(Job(id=name, person="hal", gpus=1, seconds=hours * HOUR, wanted_at=at))
    return jobs


def calibrate(seed: int = 7, *, every_hours: float = 1.0) -> Calibration:
    """Simulate the month and ask; return what was said and what happened."""
    jobs = make_jobs(seed)
    questions = _Questions(every_hours * HOUR)
    lab = simulate(
        make_nodes(_NODES, _GPUS),
        jobs,
        first_fit,
        DAYS * DAY,
        waiting_limit=5,
        on_change=questions.ask_until,
    )
    questions.ask_until(lab)
    return questions.result


class _Questions:
    """Asks at whole hours, between the changes of a lab."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = WARM_UP_DAYS * DAY
        self._last: tuple[float, list[Run], list[Run]] | None = None
        self.result = Calibration()

    def ask_until(self, lab: Lab) -> None:
        """Ask for every time since the last change, from what was known then."""
        if self._last is not None:
            _, running, ended = self._last
            while self._next < lab.now:
                self._ask(self._next, running, ended)
                self._next += self._seconds
        while self._next < lab.now:
            self._next += self._seconds
        self._last = lab.now, list(lab.running), list(lab.ended)

    def _ask(self, now: float, running: list[Run], ended: Iterable[Run]) -> None:
        past = PastJobs((run.job.person, run.job.seconds) for run in ended)
        nodes = make_nodes(_NODES, _GPUS)
        outlooks = {node: [run for run in running if run.node == node] for node in nodes}
        for count in COUNTS:
            said = estimate(
                count,
                0,
                [
                    NodeOutlook(
                        _GPUS - sum(run.job.gpus for run in runs),
                        [_running_job(run, now) for run in runs],
                    )
                    for runs in outlooks.values()
                ],
                past,
                now,
            )
            happened = min(_free_at(count, runs, now) for runs in outlooks.values())
            if happened > now:  # else there was nothing to ask
                self.result.add(said, now, happened)


def _running_job(run: Run, now: float) -> RunningJob:
    declared = run.job.declared_hours
    left = None if declared is None else run.began_at + declared * HOUR - now
    return RunningJob(run.job.person, run.job.gpus, now - run.began_at, left)


def _free_at(count: int, runs: list[Run], now: float) -> float:
    """Return when a node really has that many free GPUs, if nobody else takes them."""
    free = _GPUS - sum(run.job.gpus for run in runs)
    for run in sorted(runs, key=lambda each: each.end):
        if free >= count:
            break
        free += run.job.gpus
        now = max(now, run.end)
    return now


def main() -> None:
    """Print the calibration table."""
    found = Calibration()
    for seed in range(7, 7 + _MONTHS):
        found.merge(calibrate(seed))
    total = sum(found.said.values()) + found.unknown
    rows = [
        (f"{of_ten} of 10", str(found.said[of_ten]), f"{10 * found.share(of_ten):.1f} of 10")
        for of_ten in sorted(found.said)
    ]
    leads = sorted(found.lead_seconds)
    print(f"{total} questions in {_MONTHS} months, {_NODES} nodes with {_GPUS} GPUs\n")
    print(format_table([("said", "times", "came true"), *rows]))
    print(f"\nunknown: {found.unknown} of {total}")
    middle, most = leads[len(leads) // 2] / HOUR, leads[len(leads) * 9 // 10] / HOUR
    print(f"how far ahead: {middle:.1f} h in the median, more than {most:.1f} h for one in ten")


if __name__ == "__main__":
    main()
