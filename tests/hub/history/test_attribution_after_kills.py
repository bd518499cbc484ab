"""Whoever is killed and when, the history has exactly the jobs that there were."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fleet_smi.client.hub import HubClient
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.hub.history.known_truth import GPUS, BacklogAgent, KnownTruth
from tests.machines import wait_until

# The time of a sample is off by what its report waited for the hub, which may have been starting.
TOLERANCE_SECONDS = 10.0


@pytest.fixture
def hub(tmp_path: Path, where: str) -> Iterator[LoopbackHub]:
    """A hub as a process, with a history in either database."""
    lab = Lab(tmp_path, tmp_path)
    yield LoopbackHub(lab, history=where, remember_interval="5")
    lab.close()


def check_history(hub: LoopbackHub, truth: KnownTruth) -> None:
    """Compare the processes on each GPU, and the time of each person, with what there was."""
    seconds = defaultdict[tuple[str, str], float](float)
    pids = list[tuple[str, int]]()
    with closing(HubClient(hub.url)) as client:
        found = client.occupancies(truth.start - 3600, node=truth.name)
    for row in found.rows:
        for one in row.occupancies:
            seconds[row.gpu.uuid, one.holder.user] += one.sums.gpu_seconds
            pids.append((row.gpu.uuid, one.holder.pid))
    assert sorted(pids) == sorted((job.uuid, job.pid) for job in truth.jobs)
    assert seconds == {
        key: pytest.approx(expected, abs=TOLERANCE_SECONDS)
        for key, expected in truth.gpu_seconds().items()
    }


def check_usage(hub: LoopbackHub, truths: list[KnownTruth]) -> None:
    """Compare the sums of each person with what there was."""
    expected = defaultdict[str, float](float)
    for truth in truths:
        for (_, user), seconds in truth.gpu_seconds().items():
            expected[user] += seconds
    since = min(truth.start for truth in truths) - 3600
    with closing(HubClient(hub.url)) as client:
        found = {row.name: row.sums.gpu_seconds for row in client.usages(since).rows}
    assert {user: found[user] for user in expected} == {
        user: pytest.approx(seconds, abs=len(truths) * GPUS * TOLERANCE_SECONDS)
        for user, seconds in expected.items()
    }


def test_what_is_killed_while_backlogs_are_sent_costs_nobody_a_second(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    truths = [KnownTruth("often", 60.0, 250, seed=1), KnownTruth("seldom", 300.0, 250, seed=1)]
    agents = often, seldom = [BacklogAgent(truth, tmp_path) for truth in truths]
    token = hub.command("token", "add", "--role", "join").stdout.strip()

    def kill_hub_after_the_first() -> None:
        # Before it has saved anything; the next report is sent to a hub that knows no node.
        if often.receipts == 1:
            hub.program.kill()
            hub.start()

    often.after_receipt = kill_hub_after_the_first
    killed = set[str]()

    def all_done() -> bool:
        for agent in agents:
            if agent.receipts >= 2 and agent.truth.name not in killed:
                killed.add(agent.truth.name)
                agent.kill()
                agent.connect(hub.url, token)
            agent.report()
        return all(agent.is_done for agent in agents)

    with ExitStack() as stack:
        for agent in agents:
            stack.callback(agent.close)
            agent.connect(hub.url, token)
        wait_until(all_done, 120)
    assert killed == {"often", "seldom"}
    assert seldom.receipts > 2
    for truth in truths:
        check_history(hub, truth)
    check_usage(hub, truths)
