"""The queue in the database: limits, and the order of arrival whatever happens to the clock."""

from pathlib import Path

from fleet_smi.hub.database import open_database
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.model.queue.entries import QueueRequest
from fleet_smi.model.queue.limits import QueueLimits
from tests.builders import NOON


def test_a_clock_that_is_set_back_lets_nobody_pass_those_who_came_first(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "hub")
    store, limits = QueueStore(engine), QueueLimits(10, 10)
    came = [
        store.add(person, QueueRequest(), now, limits).id
        for person, now in (("alice", NOON), ("bob", NOON - 3600), ("carol", NOON - 3599))
    ]
    assert [entry.id for entry in store.read_all()] == came
    engine.dispose()
