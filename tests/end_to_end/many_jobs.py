"""30 jobs of five users through `run --on any` on five nodes; again with a node and the hub killed.

`python -m tests.end_to_end.many_jobs` takes two to three minutes, needs root, and prints figures.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sim.build import build
from tests.end_to_end.job_log import (
    JOB,
    JobRun,
    OrderCheck,
    QueueWatch,
    find_collisions,
    measure_delays,
    read_runs,
)
from tests.end_to_end.user_fleet import UserFleet, user_fleet
from tests.machines import wait_until

USERS = ("alice", "bob", "carol", "dave", "erin")
_GPUS_PER_NODE = 2


class Outcome(NamedTuple):
    """What happened to a batch of jobs."""

    codes: dict[str, int]
    errors: dict[str, str]
    runs: list[JobRun]
    order: OrderCheck
    seconds: float
    killed_at: float | None = None
    survived: bool | None = None
    """Whether the queue was the same after the hub came back."""

    @property
    def failed(self) -> list[str]:
        """The jobs that did not succeed."""
        return [job for job, code in self.codes.items() if code != 0]

    def cut_off(self, node: str) -> list[str]:
        """The jobs that were lost on a node that was killed."""
        return [
            job
            for job in self.failed
            if self.errors[job].rpartition(" on ")[2].split()[:1] == [node]
        ]

    @property
    def collisions(self) -> list[str]:
        """Pairs of jobs on one GPU at one time."""
        return find_collisions(self.runs, self.killed_at)


class Batch:
    """Jobs of several users, all started at once; none ends before `let_go`."""

    def __init__(
        self, fleet: UserFleet, name: str, count: int, seconds: tuple[float, float]
    ) -> None:
        self._fleet = fleet
        self._log = fleet.log / name
        self._go = fleet.log / f"{name}.go"
        self._log.mkdir()
        self._log.chmod(0o1777)
        self.watch = QueueWatch(fleet)
        self._began = time.time()
        chance = random.Random(name)
        users = list(fleet.users)
        self.jobs: dict[str, subprocess.Popen[str]] = {}
        for number in range(count):
            job = f"{name}-{number:02d}"
            length = round(chance.uniform(*seconds), 2)
            script = JOB.format(log=self._log / job, go=self._go, seconds=length)
            gpus = "2" if number % 7 == 3 else "1"
            self.jobs[job] = fleet.start_job(
                users[number % len(users)],
                *("run", "--on", "any", "--uuid", "-n", gpus, "--note", job),
                *("--", "sh", "-c", script),
            )

    def let_go(self) -> None:
        """Let jobs end, each after its time."""
        self._go.touch()

    def runs(self) -> list[JobRun]:
        """What the jobs wrote down so far."""
        return list(_complete(self._log))

    def close(self) -> None:
        """Kill what still runs."""
        self.watch.close()
        for process in self.jobs.values():
            process.kill()
            process.communicate()

    def finish(
        self, timeout_seconds: float, killed_at: float | None = None, survived: bool | None = None
    ) -> Outcome:
        """Wait for all jobs."""
        deadline = time.monotonic() + timeout_seconds
        codes, errors = {}, {}
        self.let_go()
        for job, process in self.jobs.items():
            try:
                _, errors[job] = process.communicate(timeout=max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors[job] = process.communicate()
            codes[job] = process.returncode
        self.watch.close()
        runs = read_runs(self._log)
        gpus = {
            node: [f"GPU-{node}-{at}" for at in range(_GPUS_PER_NODE)] for node in self._fleet.nodes
        }
        looks, lost = self.watch.looks, {run.node for run in runs if run.ended is None}
        order = OrderCheck(
            self.watch.requests.values(),
            self.watch.offers.values(),
            runs,
            gpus,
            killed_at,
            measure_delays(looks, runs, {*self._fleet.nodes} - lost, killed_at),
            {job: text.count("fleet-smi: on ") for job, text in errors.items()},
        )
        return Outcome(codes, errors, runs, order, time.time() - self._began, killed_at, survived)


def _complete(folder: Path) -> Iterator[JobRun]:
    with contextlib.suppress(IndexError, ValueError):  # a line that is being written
        yield from read_runs(folder)


def run_with_losses(fleet: UserFleet, batch: Batch, victim: str, timeout_seconds: float) -> Outcome:
    """Kill the hub while jobs wait, and a node while a job runs on it; start the hub again."""

    def everybody_came() -> bool:
        runs = batch.runs()
        known = {run.job for run in runs} | set(batch.watch.waiting.values())
        return any(run.node == victim for run in runs) and known == set(batch.jobs)

    wait_until(everybody_came)
    assert fleet.hub is not None
    fleet.hub.kill()
    running = {run.job for run in batch.runs()}
    before = {each for each, job in batch.watch.waiting.items() if job not in running}
    fleet.hosts[victim].kill_all()
    killed_at = time.time()
    fleet.start_hub()
    with fleet.client() as client:
        after = {row.id for row in client.queue().rows}
    return batch.finish(timeout_seconds, killed_at, before <= after)


def describe(title: str, outcome: Outcome) -> str:
    """Return the figures of a batch."""
    lines = [
        f"{title}: {len(outcome.codes)} jobs in {outcome.seconds:.0f} s",
        f"  succeeded: {sum(code == 0 for code in outcome.codes.values())}",
        f"  failed: {', '.join(outcome.failed) or 'none'}",
        f"  GPUs with two jobs at a time: {len(outcome.collisions)}",
        f"  {outcome.order.offers} offers, {outcome.order.compared} before one who comes first:",
        f"    at nobody's cost: {len(outcome.order.passed)}",
        f"    against the order: {len(outcome.order.violations)}",
        f"  the hub heard that a job had ended within {outcome.order.delays.hear_seconds:.1f} s",
    ]
    if outcome.survived is not None:
        lines.append(f"  the queue was complete after the hub came back: {outcome.survived}")
    return "\n".join(lines)


def main() -> int:
    """Run both batches; return 1 if anything was not as promised."""
    nodes = [f"gpu{number}" for number in range(1, 6)]
    with tempfile.TemporaryDirectory(prefix="fsmi-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        driver = folder / "built"
        driver.mkdir()
        build(driver)
        with user_fleet(folder, driver, nodes, USERS) as fleet:
            fleet.begin(by_token=USERS[:2])
            with closing(Batch(fleet, "plain", 30, (2.0, 6.0))) as batch:
                first = batch.finish(150)
            print(describe("all well", first), flush=True)
            with closing(Batch(fleet, "losses", 30, (2.0, 6.0))) as batch:
                second = run_with_losses(fleet, batch, "gpu3", 200)
            print(describe("a node and the hub killed", second), flush=True)
    wrong = [*first.failed, *first.collisions, *first.order.violations, *second.collisions]
    wrong += second.order.violations
    lost = second.cut_off("gpu3")
    print(f"lost on the node: {', '.join(lost)}")
    if second.failed != lost or not lost or not second.survived:
        wrong.append("the losses are not those of the node")
    for job in (*first.failed, *second.failed):
        print(f"--- {job}\n{first.errors.get(job) or second.errors.get(job)}")
    print("\n".join(wrong) or "as promised")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
