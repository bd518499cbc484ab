"""`python -m bench.fair_share`: shares and waiting times of the queue, against plain FIFO.

Four people with different appetites over a week: a sweep that never ends, large training jobs,
medium ones, and short tests in office hours. Deterministic.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.queue_simulation import (
    DAY,
    HOUR,
    Job,
    Lab,
    Policy,
    fair_share,
    first_come,
    first_fit,
    lognormal_hours,
    make_nodes,
    simulate,
)
from bench.report import format_table

DAYS = 7
POLICIES: dict[str, Policy] = {
    "plain FIFO": first_come,
    "FIFO, who fits goes": first_fit,
    "fleet-smi": fair_share,
}
PEOPLE = ("sweep", "large", "medium", "tests")


@dataclass(frozen=True)
class PersonResult:
    """What one person got: GPU-hours of those wanted, and waiting times in seconds."""

    wanted_hours: float
    got_hours: float
    median_wait: float
    longest_wait: float


def make_jobs(seed: int = 1) -> list[Job]:
    """Return the jobs of a week."""
    source = random.Random(seed)
    jobs: list[Job] = []

    def add(person: str, gpus: int, seconds: float, wanted_at: float) -> None:
        number = f"{len(jobs):05d}"
        jobs.append(Job(id=number, person=person, gpus=gpus, seconds=seconds, wanted_at=wanted_at))

    for day in range(DAYS):
        start = day * DAY
        for _ in range(120):
            add("sweep", 1, lognormal_hours(source, 3.0, 0.5), start + source.uniform(0, 2 * HOUR))
        for _ in range(4):
            add("large", 4, lognormal_hours(source, 10.0, 0.3), start + source.uniform(0, DAY))
        for _ in range(6):
            add(
                "medium", 2, lognormal_hours(source, 3.0, 0.5), start + source.uniform(8, 20) * HOUR
            )
        for _ in range(8):
            add("tests", 1, lognormal_hours(source, 0.4, 0.4), start + source.uniform(9, 18) * HOUR)
    return jobs


def run_policy(policy: Policy, jobs: Sequence[Job], *, nodes: int = 4, gpus: int = 4) -> Lab:
    """Simulate the week under one policy."""
    return simulate(make_nodes(nodes, gpus), jobs, policy, DAYS * DAY)


def results(lab: Lab, jobs: Sequence[Job]) -> dict[str, PersonResult]:
    """Return what each person got; who still waits at the end has waited until then."""
    end, runs = DAYS * DAY, [*lab.ended, *lab.running]
    began = {run.job.id: run.began_at for run in runs}
    found: dict[str, PersonResult] = {}
    for person in PEOPLE:
        own = [job for job in jobs if job.person == person]
        waits = [began.get(job.id, end) - job.wanted_at for job in own]
        got = sum(
            run.job.gpus * (min(run.end, end) - run.began_at)
            for run in runs
            if run.job.person == person
        )
        wanted = sum(job.gpus * job.seconds for job in own)
        found[person] = PersonResult(wanted / HOUR, got / HOUR, median(waits), max(waits))
    return found


def entitled_hours(wanted: dict[str, float], capacity: float) -> dict[str, float]:
    """Return the fair shares: nobody gets more than wanted, the rest is divided equally."""
    left, shares = dict(wanted), dict[str, float]()
    while left:
        equal = capacity / len(left)
        small = {person: hours for person, hours in left.items() if hours <= equal}
        if not small:
            return shares | dict.fromkeys(left, equal)
        for person, hours in small.items():
            shares[person] = hours
            capacity -= hours
            del left[person]
    return shares


def main() -> None:
    """Print the table."""
    jobs = make_jobs()
    capacity = 16 * DAYS * 24.0
    print(f"4 nodes with 4 GPUs for {DAYS} days: {capacity:.0f} GPU-hours\n")
    rows = []
    for name, policy in POLICIES.items():
        lab = run_policy(policy, jobs)
        found = results(lab, jobs)
        fair = entitled_hours({who: one.wanted_hours for who, one in found.items()}, capacity)
        for person, one in found.items():
            rows.append(
                (
                    name,
                    person,
                    f"{one.wanted_hours:.0f}",
                    f"{fair[person]:.0f}",
                    f"{one.got_hours:.0f}",
                    f"{100 * one.got_hours / fair[person]:.0f} %",
                    f"{one.median_wait / HOUR:.1f} h",
                    f"{one.longest_wait / HOUR:.1f} h",
                )
            )
        used = sum(one.got_hours for one in found.values())
        rows.append(
            (name, "all", "", "", f"{used:.0f}", f"{100 * used / capacity:.0f} % used", "", "")
        )
    heads = (
        *("policy", "person", "wanted GPU-h", "fair share", "got", "of fair share"),
        *("median wait", "longest wait"),
    )
    print(format_table([heads, *rows]))


if __name__ == "__main__":
    main()
