"""Hubs of a cluster whose clocks differ record one history, by the clock of PostgreSQL."""

from pathlib import Path

import pytest

from fleet_smi.hub.cluster.shared_clock import SharedClock
from fleet_smi.hub.cluster.state_database import open_shared_state
from tests.hub.cluster.hub_processes import HubProcess, add_join_token, wait_until_all_see
from tests.hub.cluster.ledger_check import check_ledger
from tests.hub.cluster.simulated_nodes import SimulatedNodes
from tests.nats import Nats

_TEN_MINUTES_AHEAD = """
import time
_time = time.time
time.time = lambda: _time() + 600
"""
_INTERVAL_SECONDS = 1.0


def test_a_node_that_goes_to_a_hub_with_a_wrong_clock_and_back_has_one_history(
    tmp_path: Path, nats: Nats, database: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_TEN_MINUTES_AHEAD)
    right = HubProcess(tmp_path, "right", nats.url, database)
    wrong = HubProcess(tmp_path, "wrong", nats.url, database, source=str(tmp_path))
    nodes, names = None, ["gpu01", "gpu02", "gpu03"]
    token = add_join_token(database)
    try:
        right.start()
        wrong.start()
        urls = [right.url, wrong.url]
        nodes = SimulatedNodes(tmp_path / "nodes", names, urls, token, _INTERVAL_SECONDS)
        wait_until_all_see([right], 3)
        # It says so, and knows better.
        wait_until_all_see([wrong], 3, ["cluster"])
        for gone, left, problems in (
            (right, wrong, ["cluster"]),
            (wrong, right, []),
        ):
            gone.stop()
            wait_until_all_see([left], 3, problems)
            gone.start()
            wait_until_all_see([right], 3)
            wait_until_all_see([wrong], 3, ["cluster"])
        found = check_ledger(database, nodes.finish(), _INTERVAL_SECONDS)
    finally:
        if nodes is not None:
            nodes.close()
        right.kill()
        wrong.kill()
    assert found.occupancies > 0
    assert found._replace(occupancies=0, presences=0) == (0,) * len(found)


def test_the_clock_follows_that_of_the_database_and_no_other(database: str) -> None:
    elapsed = [100.0]
    state = open_shared_state(database)
    try:
        clock = SharedClock(state, elapsed_clock=lambda: elapsed[0])
        begun = clock()
        problems = [clock.problem]
        elapsed[0] += 7.0
        assert clock() == pytest.approx(begun + 7.0)
        # By then the server has not come as far: it was set back.
        problems.append(clock.problem)
        clock.correct()
        problems.append(clock.problem)
        assert [problem is None for problem in problems] == [True, False, True]
    finally:
        state.engine.dispose()
