"""Whoever is killed and when, the history has exactly the jobs that there were."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.client.hub import HubClient
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.hub.history.known_truth import BacklogAgent, KnownTruth
from tests.machines import wait_until

# The time of a sample is off by what its report waited for the hub, which may have been starting.
TOLERANCE_SECONDS = 10.0


@pytest.fixture
def hub(tmp_path: Path, where: str) -> Iterator[LoopbackHub]:
    """A hub as a process, with a history in either database."""
    lab = Lab(tmp_path, tmp_path)
    yield LoopbackHub(lab, history=where, remember_interval="1")
    lab.close()


def send_all(hub: LoopbackHub, agents: list[BacklogAgent]) -> None:
    """Let them send their backlogs until all of each is durable."""
    token = hub.command("token", "add", "--role", "join").stdout.strip()
    try:
        for agent in agents:
            agent.connect(hub.url, token)

        def all_done() -> bool:
            for agent in agents:
                agent.report()
            return all(agent.is_done for agent in agents)

        wait_until(all_done, 120)
    finally:
        for agent in agents:
            agent.close()


def check_history(hub: LoopbackHub, truth: KnownTruth) -> None:
    """Compare what the hub answers with what there was."""
    since = truth.start - 3600
    seconds = defaultdict[tuple[str, str], float](float)
    pids = list[tuple[str, int]]()
    with closing(HubClient(hub.url)) as client:
        for row in client.occupancies(since, time.time(), node=truth.name).rows:
            for one in row.occupancies:
                seconds[row.gpu.uuid, one.holder.user] += one.sums.gpu_seconds
                pids.append((row.gpu.uuid, one.holder.pid))
        by_user = {row.name: row.sums.gpu_seconds for row in client.usages(since).rows}
    expected = truth.gpu_seconds()
    assert sorted(pids) == sorted((job.uuid, job.pid) for job in truth.jobs)
    assert seconds == {key: pytest.approx(expected[key], abs=TOLERANCE_SECONDS) for key in expected}
    totals = defaultdict[str, float](float)
    for (_, user), amount in expected.items():
        totals[user] += amount
    assert {user: by_user[user] for user in totals} == {
        user: pytest.approx(amount, abs=3 * TOLERANCE_SECONDS) for user, amount in totals.items()
    }


@pytest.mark.parametrize("interval_seconds", [60.0, 300.0])
def test_a_hub_killed_between_two_reports_of_a_backlog_records_all_of_it(
    hub: LoopbackHub, tmp_path: Path, interval_seconds: float
) -> None:
    truth = KnownTruth("node", interval_seconds, 250, seed=1)
    agent = BacklogAgent(truth, tmp_path)

    def kill_after_the_first(receipts: int) -> None:
        if receipts == 1:
            hub.program.kill()
            hub.start()

    agent.after_receipt = kill_after_the_first
    send_all(hub, [agent])
    check_history(hub, truth)
