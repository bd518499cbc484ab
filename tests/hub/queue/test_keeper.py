"""Requests that come and change while a round of the queue is being planned."""

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fleet_smi.hub.database import open_database
from fleet_smi.hub.queue.keeper import QueueKeeper
from fleet_smi.hub.queue.past import QueuePast
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.model.fleet import NodeView, Verdict
from fleet_smi.model.queue.entries import QueueRequest
from fleet_smi.model.queue.limits import QueueLimits
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.views import NodeParts
from tests.builders import NOON, gpu

FREE = Verdict(state="free", reason="", since=NOON)
BUSY = Verdict(state="busy", reason="", since=NOON)


class SlowFleet:
    """A fleet of one GPU, on which a round can be made to wait; its clock ticks when it is read."""

    def __init__(self) -> None:
        ticks = count()
        self.clock = lambda: NOON + next(ticks)
        self.fleet = SimpleNamespace(thresholds=DEFAULT_THRESHOLDS)
        self.verdict = BUSY
        self.is_asked, self.may_go = asyncio.Event(), asyncio.Event()
        self.is_held = False

    async def parts(self) -> Sequence[NodeParts]:
        node = NodeView(node_id="id-of-gpu01", name="gpu01", taken_at=NOON, age_seconds=0.0)
        found = NodeParts(node=node, gpus=((gpu(0), self.verdict),), verdicts={})
        if self.is_held:  # the first who asks waits, with what is known now
            self.is_held = False
            self.is_asked.set()
            await self.may_go.wait()
        return [found]


def open_keeper(hub: Any, folder: Path) -> QueueKeeper:
    store = QueueStore(open_database(folder / "hub"))
    keeper = QueueKeeper(hub, store, QueuePast(None), QueueLimits(10, 10))
    keeper.collect_parts = hub.parts
    return keeper


def test_who_comes_during_a_round_arrives_after_the_offers_of_that_round(tmp_path: Path) -> None:
    async def play() -> None:
        hub = SlowFleet()
        keeper = open_keeper(hub, tmp_path)
        first = await keeper.join("alice", QueueRequest())
        assert first.offer is None
        # Somebody else comes while one round is being planned, and the next is due.
        hub.is_held = True
        planning = asyncio.gather(keeper.plan(), keeper.plan())
        await hub.is_asked.wait()
        hub.verdict = FREE
        joining = asyncio.create_task(keeper.join("bob", QueueRequest()))
        while len(getattr(keeper._lock, "_waiters", None) or ()) < 2:
            await asyncio.sleep(0)
        hub.may_go.set()
        await planning
        second = await joining
        offered = keeper.row(first.id, "alice").offer
        assert offered is not None
        assert second.offer is None
        assert second.arrived_at > offered.made_at

    asyncio.run(play())


def test_a_change_during_a_round_does_not_undo_what_the_round_decided(tmp_path: Path) -> None:
    async def play() -> None:
        hub = SlowFleet()
        keeper = open_keeper(hub, tmp_path)
        row = await keeper.join("alice", QueueRequest())
        hub.verdict, hub.is_held = FREE, True
        planning = asyncio.create_task(keeper.plan())
        await hub.is_asked.wait()
        editing = asyncio.create_task(keeper.change(row.id, note="for the talk"))
        await asyncio.sleep(0)
        hub.may_go.set()
        await planning
        offer = keeper.entry(row.id).offer
        await editing
        assert offer is not None
        assert keeper.entry(row.id).offer == offer
        assert keeper.entry(row.id).request.note == "for the talk"

    asyncio.run(play())
