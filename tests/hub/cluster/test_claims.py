"""Nodes that a hub hears before it owns them: all they reported is recorded, at its own time."""

from pathlib import Path

from sqlalchemy import text

from fleet_smi.hub.cluster.state_database import open_shared_state
from tests.hub.cluster.conftest import StartHub
from tests.hub.cluster.hub_processes import add_join_token
from tests.hub.cluster.ledger_check import check_ledger
from tests.hub.cluster.simulated_nodes import SimulatedNodes
from tests.machines import wait_until

_INTERVAL_SECONDS = 0.5


def test_what_a_new_node_reports_before_it_is_claimed_is_recorded_at_its_time(
    tmp_path: Path, start_hub: StartHub, database: str
) -> None:
    token, hub = add_join_token(database), start_hub("one")
    state = open_shared_state(database)
    nodes = None
    try:
        with state.engine.begin() as connection:
            connection.execute(text("LOCK TABLE owners IN EXCLUSIVE MODE"))  # nobody can claim
            nodes = SimulatedNodes(tmp_path, ["gpu01"], [hub.url], token, _INTERVAL_SECONDS)
            # It is shown all the same, for longer than its silence takes.
            wait_until(lambda: any(node.sequence > 10 for node in hub.fleet().nodes))
        found = check_ledger(database, nodes.finish(), _INTERVAL_SECONDS)
    finally:
        if nodes is not None:
            nodes.close()
        state.engine.dispose()
    assert found.occupancies > 0
    assert found._replace(occupancies=0, presences=0) == (0,) * len(found)
