"""SQL queries: descriptions, presence and occupancies, and an empty history."""

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.history import Sums
from tests.hub.history.batches import (
    gpu,
    node,
    occupancy,
    place,
    sums,
)
from tests.hub.history.written_history import ALICE, BOB, queries_over


def test_nodes_and_gpus_have_their_latest_description(store: HistoryStore) -> None:
    instance = gpu(2, 1, vendor="amd", parent="GPU-a", model=None, memory_total_bytes=None)
    queries = queries_over(store, WriteBatch(nodes=[node(1), node(2)], gpus=[gpu(1), instance]))
    assert queries.nodes() == [node(1), node(2)]
    assert queries.gpus() == [gpu(1), instance]
    assert queries.gpus(["id-2"]) == [instance]
    assert queries.gpus([]) == []


def test_presence_is_found_by_range(store: HistoryStore) -> None:
    presence = [Presence(node_id=f"id-{n}", start=10.0 * n, end=10.0 * n + 5) for n in (1, 2, 3)]
    assert queries_over(store, WriteBatch(presence=presence)).presence(15.0, 30.0) == presence[1:2]


def test_occupancies_can_be_limited_to_a_user_and_a_node(store: HistoryStore) -> None:
    of_alice = occupancy(10.0, 20.0, ALICE, sums=sums(10.0), peak_memory_bytes=1 << 36)
    of_bob = occupancy(5.0, 30.0, BOB, certain=False, mean_memory_bytes=7)
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(2, 0)],
        occupancies=[(place(1), of_alice), (place(1), of_bob), (place(2), of_alice)],
    )
    queries = queries_over(store, batch)
    one, two = queries.occupancies(0.0, 99.0)
    assert (one.gpu, one.occupancies) == (gpu(1, 0), (of_bob, of_alice))
    assert (two.gpu, two.occupancies) == (gpu(2, 0), (of_alice,))
    (bobs,) = queries.occupancies(0.0, 99.0, user="bob")
    assert bobs.occupancies == (of_bob,)
    (there,) = queries.occupancies(0.0, 99.0, user="alice", node_id="id-2")
    assert (there.gpu, there.occupancies) == (gpu(2, 0), (of_alice,))
    assert queries.occupancies(20.0, 99.0, user="alice") == []
    assert queries.occupancies(0.0, 99.0, user="nobody else") == []


def test_an_empty_history_gives_empty_results(store: HistoryStore) -> None:
    queries = HistoryQueries(store)
    assert queries.periods(None, 0.0, 1e12) == []
    assert queries.occupancies(0.0, 1e12) == []
    assert queries.usages(0.0, 1e9, "node").total == Sums()
    assert queries.ribbon(0.0, 1e9, 100).moments == ()
    assert queries.oldest_time() is None
    assert queries.gaps(0.0, 1e12) == []
