"""Machines at random, with clocks that are set: verdicts and history match the truth."""

import random
from collections import defaultdict
from itertools import pairwise

import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.people import people_in_view
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import GIB, MIB
from tests.builders import HOUR, NOON, gpu, process, snapshot
from tests.hub.clocked_hub import ClockedHub
from tests.hub.history.in_memory_history import InMemoryHistory

INTERVAL = 10.0
SLACK = 3 * INTERVAL
IDLE_WINDOW = 600.0
STEPS = (-3 * HOUR, -HOUR, -300.0, -20.0, 20.0, 300.0, HOUR, 40 * 24 * HOUR)


class Job:
    """A process, with its times by a clock that is never set."""

    def __init__(self, pid: int, user: str, started: float) -> None:
        self.pid, self.user, self.started = pid, user, started
        self.worked = self.changed = started
        self.works = True


class World(ClockedHub):
    """One machine with two GPUs, a hub, and the true time that has passed."""

    def __init__(
        self, memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, chance: random.Random
    ) -> None:
        super().__init__(memory, stored, NOON)
        self.chance = chance
        self.node_error = 0.0
        self.jobs: list[Job | None] = [None, None]
        self.ended: list[Job] = []
        self.used_seconds = defaultdict[str, float](float)
        self.sequence = 0
        self.since_refused = 0

    def run_step(self) -> None:
        """Let an interval pass: jobs begin, pause or end, clocks are set, a report is sent."""
        self.pass_time(INTERVAL)
        for index, job in enumerate(self.jobs):
            if job is not None:
                self.used_seconds[job.user] += INTERVAL
            self._change_job(index, job)
        if self.chance.random() < 0.004:
            self.set_clock(self.chance.choice(STEPS))
        if self.chance.random() < 0.01:
            self.node_error += self.chance.choice(STEPS)
        self._report()

    def _change_job(self, index: int, job: Job | None) -> None:
        if job is None:
            if self.chance.random() < 0.03:
                user = self.chance.choice(["alice", "bob"])
                self.jobs[index] = Job(100 + self.sequence * 2 + index, user, self.elapsed)
            return
        if job.works:
            job.worked = self.elapsed
        if self.chance.random() < 0.01:
            job.works, job.changed = not job.works, self.elapsed
        elif self.chance.random() < 0.008:
            self.ended.append(job)
            self.jobs[index] = None

    def _report(self) -> None:
        self.sequence += 1
        refused = self.chance.random() < 0.1
        node_now = NOON + self.elapsed + self.node_error
        cards = [self._card(index, job, refused=refused) for index, job in enumerate(self.jobs)]
        self.since_refused = 0 if refused else self.since_refused + 1
        taken = snapshot(
            *cards,
            taken_at=node_now,
            sequence=self.sequence,
            run_id="run",
            interval_seconds=INTERVAL,
        )
        self.hub.deliver(Delivery(source="push", target=taken.node_id, result=taken))
        self.hub.publish()

    def _card(self, index: int, job: Job | None, *, refused: bool) -> Gpu:
        if job is None:
            return gpu(index, processes=None if refused else ())
        size = 16 * GIB if job.pid % 2 else 420 * MIB
        start = NOON + job.started + self.node_error
        running = process(job.pid, user=job.user, started_at=start, gpu_memory_bytes=size)
        return gpu(
            index,
            processes=None if refused else (running,),
            busy_percent=90.0 if job.works else 0.0,
            memory_used_bytes=size,
        )

    def assert_true(self) -> None:
        """Compare states, `since` and idle times with the truth."""
        view = self.fleet.view(self.now)
        (node,) = view.nodes
        assert not node.silent
        for shown, job in zip(node.gpus, self.jobs, strict=True):
            verdict = shown.verdict
            assert 0.0 <= self.now - verdict.since <= self.elapsed
            assert (verdict.idle_seconds or 0.0) >= 0.0
            if job is None or self.since_refused < 1:
                continue
            idle = self.elapsed - job.worked
            assert verdict.state in ("busy", "held")
            if idle > IDLE_WINDOW + 2 * SLACK:
                assert verdict.state == "held", verdict
            if idle < IDLE_WINDOW - SLACK and self.elapsed - job.changed > SLACK:
                assert verdict.state == "busy", verdict
        if self.since_refused:
            for person in people_in_view(view):
                jobs = [job for job in self.jobs if job is not None and job.user == person.user]
                if jobs and person.since is not None:
                    true_age = self.elapsed - min(job.started for job in jobs)
                    assert self.now - person.since == pytest.approx(true_age, abs=SLACK)


@pytest.mark.parametrize("seed", range(8))
def test_states_and_history_match_the_truth_whatever_the_clocks_do(
    memory: NodeStore[NodeCheckpoint], seed: int
) -> None:
    stored = InMemoryHistory()
    world = World(memory, stored, random.Random(seed))
    for _ in range(1500):
        world.run_step()
        world.assert_true()
    world.history.remove_node("id-of-gpu01", world.now)
    world.history.flush()
    assert_history_is_sound(world)


def assert_history_is_sound(world: World) -> None:
    stored = world.stored
    by_hour = defaultdict[tuple[int, str], float](float)
    by_user = defaultdict[str, float](float)
    for row in stored.usage():
        by_hour[row.hour, row.gpu_key[1]] += row.sums.gpu_seconds
        by_user[row.user] += row.sums.gpu_seconds
    assert all(-0.1 <= seconds <= 3600.1 for seconds in by_hour.values())
    for index in range(2):
        spans = [(one.start, one.end) for one in stored.periods(gpu(index).uuid)]
        for (_, end), (start, _) in pairwise(spans):
            assert end is not None
            assert end <= start
    true_seconds = world.used_seconds
    for user in ("alice", "bob"):
        assert by_user[user] <= true_seconds[user] + len(world.ended) * SLACK
    started = {job.pid: job for job in [*world.ended, *filter(None, world.jobs)]}
    pids = [one.holder.pid for one in stored.occupancies() if one.holder.pid]
    # A process may be cut by what was recorded again, but it is never two.
    assert len(pids) == len(set(pids))
    for one in stored.occupancies():
        assert one.end is not None
        assert one.end >= one.start
        assert one.sums.gpu_seconds <= one.end - one.start + SLACK
    assert set(pids) <= set(started)
