"""Reports are recorded in the order in which they were taken, also by a hub that was killed."""

from collections import defaultdict
from pathlib import Path

import pytest

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON, snapshot
from tests.hub.history.batches import KEEP_ALL
from tests.hub.history.reporting_node import busy_gpu
from tests.hub.history.restarting_hub import InProcessAgent, RestartingHub


def sample(number: int, user: str, interval_seconds: float) -> Snapshot:
    return snapshot(
        busy_gpu(1000 + ord(user[0]), user=user),
        taken_at=NOON + number * interval_seconds,
        sequence=number,
        run_id="run",
        interval_seconds=interval_seconds,
    )


@pytest.mark.parametrize("interval_seconds", [1.0, 300.0])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_killed_hub_charges_what_it_lost_to_the_person_who_had_the_gpu(
    tmp_path: Path, interval_seconds: float, lost: int
) -> None:
    users = ["alice"] * 10 + ["bob"] * lost + ["carol"] * 10
    hub = RestartingHub(str(tmp_path / "history.db"), tmp_path / "hub", KEEP_ALL, NOON, 0.0)
    agent = InProcessAgent(hub, tmp_path / "spool")
    agent.session.reconnects = True
    for number, user in enumerate(users):
        if number == 10:
            for _ in range(3):
                hub.tick()
        if number == 10 + lost:
            hub.restart(killed=True)
        agent.report(sample(number, user, interval_seconds))
    agent.close()
    hub.restart()
    seconds = defaultdict[str, float](float)
    for row in HistoryQueries(hub._store).occupancies(NOON - 100, NOON + 1e6):
        for one in row.occupancies:
            seconds[one.holder.user] += one.sums.gpu_seconds
    for _, one in hub._history.open_batch().occupancies:
        seconds[one.holder.user] += one.sums.gpu_seconds
    hub.close()
    # The last sample holds until the next one, which has not come yet.
    expected = {"alice": 10, "bob": lost, "carol": 9}
    assert seconds == {
        user: pytest.approx(count * interval_seconds, rel=0.05) for user, count in expected.items()
    }
