"""A process is one occupancy, whatever is killed or unreachable while it runs."""

import random
from pathlib import Path

import pytest

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.model.snapshot import Gpu, Snapshot
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.batches import KEEP_ALL
from tests.hub.history.in_memory_history import RecordedFleet
from tests.hub.history.restarting_hub import InProcessAgent, RestartingHub

INTERVAL_SECONDS = 10.0
REPORTS = 300
RESTART_PROBABILITY = 0.02


class Machine:
    """Two GPUs with processes that come and go."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pids: list[int | None] = [None, None]
        self._last_pid = 100
        self._sequence = -1

    def sample(self) -> Snapshot:
        self._sequence += 1
        for index, pid in enumerate(self._pids):
            if self._chance.random() < 0.05:
                self._last_pid += 1
                begins = pid is None or self._chance.random() < 0.5
                self._pids[index] = self._last_pid if begins else None
        return snapshot(
            *[self._card(index, pid) for index, pid in enumerate(self._pids)],
            taken_at=NOON + self._sequence * INTERVAL_SECONDS,
            sequence=self._sequence,
            run_id="run",
            interval_seconds=INTERVAL_SECONDS,
        )

    def _card(self, index: int, pid: int | None) -> Gpu:
        if pid is None:
            return gpu(index)
        return gpu(index, busy_percent=95.0, processes=(process(pid, started_at=float(pid)),))


def test_a_process_is_one_occupancy_after_kills_outages_and_late_reports(tmp_path: Path) -> None:
    chance = random.Random(4)
    hub = RestartingHub(
        str(tmp_path / "history.db"), tmp_path / "hub", KEEP_ALL, NOON, RESTART_PROBABILITY
    )
    agent, machine = InProcessAgent(hub, tmp_path / "spool"), Machine(chance)
    for _ in range(REPORTS):
        sample = machine.sample()
        is_up = chance.random() < (0.9 if agent.session.is_up else 0.3)
        # By another way first, so that what the agent has buffered comes late.
        returns = is_up and not agent.session.is_up and hub.has_node(sample)
        if returns and chance.random() < 0.5:
            hub.poll(sample)
        agent.session.is_up = is_up
        agent.report(sample)
        if chance.random() < 0.4:
            hub.tick()
    agent.close()
    for _ in range(3):
        hub.tick()
    hub.restart()
    starts: dict[tuple[str, int], set[float]] = {}
    for row in HistoryQueries(hub._store).occupancies(NOON - 100, NOON + 1e6):
        for one in row.occupancies:
            starts.setdefault((row.gpu.uuid, one.holder.pid), set()).add(one.start)
    for (_, uuid), one in hub._history.open_batch().occupancies:
        starts.setdefault((uuid, one.holder.pid), set()).add(one.start)
    hub.close()
    assert len(starts) > 10
    assert {key: found for key, found in starts.items() if len(found) > 1} == {}


@pytest.mark.parametrize("step", [-3600.0, -20.0, 20.0, 3600.0])
@pytest.mark.parametrize("delay", [0.0, 12.0])
def test_a_process_is_one_occupancy_when_the_clock_of_its_node_is_set(
    step: float, delay: float
) -> None:
    recorded = RecordedFleet()
    for number in range(200):
        clock_error = step if number >= 100 else 0.0
        started_at = NOON - 500.0 + clock_error
        others = (process(2, started_at=NOON + clock_error),) if number % 20 < 10 else ()
        sample = snapshot(
            gpu(busy_percent=95.0, processes=(process(1, started_at=started_at), *others)),
            taken_at=NOON + number + clock_error,
            sequence=number,
            run_id="run",
        )
        recorded.take(sample, NOON + number + (delay if 40 < number < 50 else 0.0))
        recorded.history.tick(NOON + number)
    recorded.history.remove_node(sample.node_id, NOON + 200)
    recorded.history.flush()
    spans = [(one.start, one.end) for one in recorded.stored.occupancies() if one.holder.pid == 1]
    assert spans == [(NOON, NOON + 200)]


def test_a_pid_that_another_process_got_is_another_occupancy() -> None:
    recorded = RecordedFleet()
    for number in range(20):
        started_at = NOON - 500.0 if number < 10 else NOON + 9.0
        running = gpu(busy_percent=95.0, processes=(process(1, started_at=started_at),))
        taken = snapshot(running, taken_at=NOON + number, sequence=number, run_id="run")
        recorded.take(taken, NOON + number)
        recorded.history.mark_renamed(taken.node_id)  # a full diff of every report
    recorded.history.remove_node(taken.node_id, NOON + 20)
    recorded.history.flush()
    assert len(recorded.stored.occupancies()) == 2


def test_a_process_is_one_occupancy_when_the_list_is_refused_now_and_then() -> None:
    recorded = RecordedFleet()
    for number in range(400):
        listed = None if number % 4 else (process(1, started_at=NOON - 500.0),)
        running = gpu(busy_percent=95.0, processes=listed, memory_used_bytes=16 << 30)
        taken = snapshot(running, taken_at=NOON + number, sequence=number, run_id="run")
        recorded.take(taken, NOON + number)
        recorded.history.tick(NOON + number)
    recorded.history.remove_node(taken.node_id, NOON + 400)
    recorded.history.flush()
    (job,) = recorded.stored.occupancies()
    assert (job.holder.pid, job.start, job.end) == (1, NOON, NOON + 400)
    assert recorded.stored.gpu_seconds(user="alice") == pytest.approx(400.0)
