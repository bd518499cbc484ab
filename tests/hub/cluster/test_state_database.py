"""The shared state of a cluster: created once, migrated, and refused where it is too new."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from fleet_smi.errors import StateError
from fleet_smi.hub.cluster.state_database import open_shared_state
from tests.builders import gpu
from tests.hub.cluster.conftest import StartHub
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now

_HUBS = 4


def test_hubs_that_start_together_create_one_cluster(database: str) -> None:
    with ThreadPoolExecutor(_HUBS) as threads:
        states = list(threads.map(open_shared_state, [database] * _HUBS))
    assert len({state.cluster_id for state in states}) == 1
    for state in states:
        state.engine.dispose()


def test_an_older_database_is_migrated(database: str) -> None:
    state = open_shared_state(database)
    with state.engine.begin() as connection:
        connection.execute(text("DROP TABLE ended_sessions"))
        connection.execute(text("DROP TABLE closings"))
        connection.execute(text("ALTER TABLE tokens DROP COLUMN person"))
        connection.execute(text("ALTER TABLE reservations DROP COLUMN via"))
        connection.execute(text("UPDATE facts SET value = '1' WHERE name = 'schema'"))
    state.engine.dispose()
    again = open_shared_state(database)
    assert again.cluster_id == state.cluster_id
    assert inspect(again.engine).has_table("ended_sessions", again.schema)
    columns = inspect(again.engine).get_columns("reservations", again.schema)
    assert "via" in [column["name"] for column in columns]
    again.engine.dispose()


def test_a_newer_database_is_refused(database: str) -> None:
    state = open_shared_state(database)
    with state.engine.begin() as connection:
        connection.execute(text("UPDATE facts SET value = '99' WHERE name = 'schema'"))
    state.engine.dispose()
    with pytest.raises(StateError, match="update fleet-smi on this machine"):
        open_shared_state(database)


def test_a_hub_that_is_alone_does_not_write_to_the_history_of_a_cluster(
    tmp_path: Path, start_hub: StartHub, database: str
) -> None:
    start_hub("one")
    alone = start_hub("alone", hub__cluster="")
    alone.join_and_report(snapshot_now("gpu01", gpu(0)))

    def says_so() -> bool:
        return b"another hub writes to" in alone.request("GET", "/api/v1/problems").body

    wait_until(says_so)
