"""Feeds of the live screen: a real hub that comes, answers and goes; a fleet that fails."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError, Unreachable
from fleet_smi.model.fleet import FleetView
from fleet_smi.terminal.top.feed import Feed, PolledFeed
from fleet_smi.terminal.top.hub_feed import HubFeed
from fleet_smi.terminal.top.requests import GoTo, ShowHistory, ShowPeople, Watch
from fleet_smi.terminal.top.updates import (
    EventArrived,
    HistoryArrived,
    NodeArrived,
    PastArrived,
    PeopleArrived,
    QueueArrived,
    Trouble,
    Update,
    ViewArrived,
)
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.terminal import samples

Kind = TypeVar("Kind", bound=Update)


class Delivered:
    """What a feed has delivered so far."""

    def __init__(self) -> None:
        self.updates: list[Update] = []

    def first(self, kind: type[Kind], fits: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """Wait for an update of this kind that fits."""
        found: list[Kind] = []

        def look() -> bool:
            found[:] = [each for each in self.updates if isinstance(each, kind) and fits(each)]
            return bool(found)

        wait_until(look)
        return found[0]


@contextmanager
def running(feed: Feed) -> Iterator[Delivered]:
    delivered = Delivered()
    feed.start(delivered.updates.append)
    yield delivered
    feed.stop()


def is_recorded(hub: ThreadedHub, node: str) -> bool:
    now = time.time()
    with closing(HubClient(hub.url)) as client, suppress(FleetError):
        return bool(client.strips(now - 3600, now, columns=60, node=node).rows)
    return False


def test_a_hub_sends_its_fleet_and_answers_what_is_looked_at(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        feed = HubFeed(HubClient(hub.url))
        with running(feed) as delivered:
            sent = delivered.first(EventArrived, lambda each: bool(each.event and each.event.nodes))
            assert sent.event is not None
            assert [node.name for node in sent.event.nodes] == ["gpu01"]
            feed.request(Watch("id-of-gpu01"))
            node = delivered.first(NodeArrived).node
            assert node.gpus[0].processes
            feed.request(ShowPeople())
            assert delivered.first(PeopleArrived).people.people
            assert delivered.first(QueueArrived).queue is not None
            feed.request(GoTo(time.time() - 0.001))
            assert delivered.first(PastArrived).event.nodes
            # Until the first rows are written, the history does not know the node.
            wait_until(lambda: is_recorded(hub, "id-of-gpu01"))
            until = time.time()
            feed.request(ShowHistory("id-of-gpu01", until - 3600, until, 60))
            assert len(delivered.first(HistoryArrived).strips.rows) == 2


def test_a_hub_that_vanishes_is_named_and_followed_again_when_it_is_back(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        port = int(hub.url.rpartition(":")[2])
        feed = HubFeed(HubClient(hub.url))
        with running(feed) as delivered:
            delivered.first(EventArrived)
            hub.stop()
            assert delivered.first(Trouble).text
            delivered.updates.clear()
            with ThreadedHub(tmp_path / "other", hub__listen=f"127.0.0.1:{port}"):
                delivered.first(EventArrived, lambda update: update.kind == "fleet")


class FailingFleet:
    """Fails at first, and then has one node."""

    def __init__(self) -> None:
        self.failures = 2

    def view(self, *_: object) -> FleetView:
        if self.failures:
            self.failures -= 1
            raise Unreachable("nobody is there")
        return samples.fleet(samples.eight())


def test_a_fleet_that_fails_is_read_again() -> None:
    feed = PolledFeed(FailingFleet(), "folder", 0.01)
    with running(feed) as delivered:
        assert delivered.first(Trouble).text == "nobody is there"
        assert delivered.first(ViewArrived).view.nodes[0].name == "gpu01"
        feed.request(ShowPeople())
        assert delivered.first(PeopleArrived).people.people[0].user == "alice"
