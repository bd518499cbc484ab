"""The queue of a cluster: taken at any hub, offered by the leader, and by another after it."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.builders import gpu
from tests.hub.cluster.conftest import StartHub
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.routes.test_queue import PROXIED, join, rows, send
from tests.server.threaded_hub import ThreadedHub


def leads(hub: ThreadedHub) -> bool:
    """Return whether a hub makes the offers."""
    return hub.server.queue._is_leader()


def is_offered(hub: ThreadedHub, row: dict[str, Any]) -> bool:
    """Return whether a hub shows an offer for a request."""
    return any(each["id"] == row["id"] and each["offer"] for each in rows(hub))


def test_another_hub_makes_the_offers_when_the_leader_ends(
    tmp_path: Path, start_hub: StartHub
) -> None:
    one = start_hub("one", **PROXIED)
    wait_until(partial(leads, one))
    two = start_hub("two", **PROXIED)
    two.join_and_report(snapshot_now("gpu01", gpu(0)))
    wait_until(lambda: send(one, "bob", "POST", n=1, note="probe").status == 200)
    for row in rows(one):
        send(one, "bob", "DELETE", f"/{row['id']}")
    wait_until(lambda: rows(two) == [])
    first = join(two, "bob")
    wait_until(partial(is_offered, two, first))
    wait_until(partial(is_offered, one, first))
    second = join(one, "carol")
    assert not is_offered(one, second)
    one.stop()
    wait_until(partial(leads, two))
    wait_until(lambda: second["id"] in [row["id"] for row in rows(two)])
    assert send(two, "bob", "DELETE", f"/{first['id']}").status == 204
    wait_until(partial(is_offered, two, second))
