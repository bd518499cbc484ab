"""Who owns a node and who leads, as PostgreSQL keeps it."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import select, text

from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.state_database import SharedState, open_shared_state
from fleet_smi.hub.database import tokens, write_transaction
from fleet_smi.hub.history.recording.rows import Checkpoint, NodeRow, UsageRow, WriteBatch
from fleet_smi.hub.tokens import IssuedToken, TokenStore
from fleet_smi.model.history import Sums
from tests.machines import wait_until


@pytest.fixture
def state(database: str) -> Iterator[SharedState]:
    """The shared state of an empty cluster."""
    opened = open_shared_state(database)
    yield opened
    opened.engine.dispose()


def owner(state: SharedState, hub: str) -> Ownership:
    """Return the ownership as one hub sees it."""
    return Ownership(state, hub, Leadership(state, "leader", hub))


def test_hubs_that_start_together_create_one_state(database: str) -> None:
    found: list[SharedState] = []
    threads = [
        threading.Thread(target=lambda: found.append(open_shared_state(database))) for _ in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.cluster_id for each in found}) == 1
    for each in found:
        each.engine.dispose()


def test_a_hub_writes_only_what_it_owns_and_learns_what_it_lost(state: SharedState) -> None:
    one, two = owner(state, "one"), owner(state, "two")
    assert one.claim(["a", "b"]) == {"a": 1, "b": 1}
    assert two.claim(["b"]) == {"b": 2}
    batch = WriteBatch(
        nodes=[NodeRow(node_id="a", name="a"), NodeRow(node_id="b", name="b")],
        checkpoints=[Checkpoint(node_id="b", data=b"")],
        usage=[
            UsageRow(hour=0, gpu_key=("b", "GPU-1"), user="", group="", state="free", sums=Sums())
        ],
        removed_nodes=["b"],
        replaced=[(0.0, 1.0)],
    )
    with write_transaction(state.engine) as connection:
        (kept,) = one.admit(connection, [batch])
    assert kept == WriteBatch(nodes=[NodeRow(node_id="a", name="a")])
    assert (one.take_lost(), one.take_lost()) == ({"b"}, set())
    assert (one.epochs(), two.epochs()) == ({"a": 1}, {"b": 2})


def test_a_claim_waits_for_what_the_owner_is_writing(state: SharedState) -> None:
    one, two = owner(state, "one"), owner(state, "two")
    one.claim(["a"])
    claimed = threading.Event()

    def claim_node() -> None:
        two.claim(["a"])
        claimed.set()

    with write_transaction(state.engine) as connection:
        assert one.lock_owned(connection, ["a"]) == {"a"}
        claim = threading.Thread(target=claim_node)
        claim.start()
        assert not claimed.wait(0.2)
    claim.join()
    assert two.owned() == {"a"}


def test_one_hub_leads_until_its_lease_ends(state: SharedState) -> None:
    one, two = (Leadership(state, "leader", hub, lease_seconds=0.5) for hub in ("one", "two"))
    other = Leadership(state, "queue", "two")
    assert (one.renew(), two.renew(), other.renew()) == (True, False, True)
    assert (one.is_leader, two.is_leader) == (True, False)
    # It hangs: the lease passes on, and it may write nothing in its name any more.
    wait_until(two.renew)
    assert (one.is_leader, two.is_leader) == (False, True)
    with write_transaction(state.engine) as connection:
        assert (one.holds(connection), two.holds(connection)) == (False, True)


def test_a_node_that_joins_at_two_hubs_at_once_has_one_credential(state: SharedState) -> None:
    one, two = TokenStore(state.engine), TokenStore(state.engine)
    join, issued = one.add("join", max_uses=5), list[IssuedToken]()
    threads = [
        threading.Thread(
            target=lambda hub=hub: issued.append(
                hub.redeem_join_token(join.secret, "a", "a", "fsmi_node_x")
            )
        )
        for hub in (one, two)
    ]
    with write_transaction(state.engine) as connection:
        # Both have found no credential of the node when the first of them goes on.
        connection.execute(select(tokens).with_for_update()).all()
        for thread in threads:
            thread.start()
        wait_until(lambda: _waiting(state) == 2)
    for thread in threads:
        thread.join()
    assert issued[0] == issued[1]
    assert [token.uses_left for token in one.list_all() if token.role == "join"] == [4]


def _waiting(state: SharedState) -> int:
    """Return how many connections wait for a row."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with state.engine.connect() as connection:
        return int(connection.scalar(waiting) or 0)
