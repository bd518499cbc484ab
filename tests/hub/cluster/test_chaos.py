"""A small cluster whose parts are killed in turn: nothing is lost, nothing is doubled."""

from contextlib import ExitStack
from pathlib import Path

from tests.hub.cluster.hub_processes import HubProcess, add_join_token, wait_until_all_see
from tests.hub.cluster.ledger_check import wait_for_ledger
from tests.hub.cluster.simulated_nodes import SimulatedNodes
from tests.machines import wait_until
from tests.nats import Nats
from tests.postgres import Postgres, postgres_server

NODES, INTERVAL_SECONDS = 12, 0.5


def test_killed_hubs_nats_and_database_lose_and_double_nothing(tmp_path: Path, nats: Nats) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())  # its own: it is killed
        database = stack.enter_context(server.database())
        token = add_join_token(database)
        hubs = [HubProcess(tmp_path, name, nats.url, database) for name in ("one", "two")]
        for hub in hubs:
            stack.callback(hub.kill)
            hub.start()
        names, urls = [f"gpu{number:02}" for number in range(NODES)], [hub.url for hub in hubs]
        nodes = SimulatedNodes(tmp_path / "agents", names, urls, token, INTERVAL_SECONDS)
        stack.callback(nodes.close)
        wait_until_all_see(hubs, NODES)
        hubs[0].kill()
        wait_until_all_see(hubs[1:], NODES, ["cluster"])
        hubs[0].start()
        wait_until_all_see(hubs, NODES)
        _restart_nats(nats, hubs)
        _restart_postgres(server, hubs)
        wait_until_all_see(hubs, NODES)
        found = wait_for_ledger(database, nodes.finish(), INTERVAL_SECONDS)
    assert found.occupancies >= NODES
    assert found == found._replace(
        unsaved_sequences=0,
        missing_sequences=0,
        doubled_occupancies=0,
        missing_occupancies=0,
        wrong_times=0,
    )


def _restart_nats(nats: Nats, hubs: list[HubProcess]) -> None:
    nats.kill()
    for hub in hubs:
        _wait_for_problem(hub, "cluster")
    nats.start()


def _restart_postgres(server: Postgres, hubs: list[HubProcess]) -> None:
    server.kill()
    for hub in hubs:
        _wait_for_problem(hub, "credentials")
    server.start()


def _wait_for_problem(hub: HubProcess, kind: str) -> None:
    wait_until(lambda: kind in (hub.problems() or []))
