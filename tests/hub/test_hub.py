"""The hub: deliveries are applied, published and saved, in that order."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from fleet_smi.errors import Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub import hub as spine
from fleet_smi.hub.database import open_database
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON, gpu, snapshot
from tests.scripted_source import ScriptedSource

Story = Callable[[Hub, ScriptedSource], Coroutine[Any, Any, None]]


def taken(sequence: int, **fields: Any) -> Snapshot:
    known: dict[str, Any] = {"run_id": "run-1", "taken_at": NOON + sequence}
    return snapshot(gpu(0), sequence=sequence, **(known | fields))


def received(sequence: int, age_seconds: float = 0.0, **fields: Any) -> Delivery:
    what = taken(sequence, **fields)
    return Delivery(source="scripted", target="gpu01", result=what, age_seconds=age_seconds)


def failed(message: str = "no route to host") -> Delivery:
    return Delivery(source="scripted", target="gpu01", result=Unreachable(message, "gpu01"))


class Life:
    """The lives of a hub, one after the other, on one state folder and a clock of the test's."""

    def __init__(self, engine: Engine) -> None:
        self.now = NOON
        self._engine = engine

    def live(self, story: Story, source: ScriptedSource | None = None) -> None:
        """One life, in which the story happens."""
        asyncio.run(self._live(story, source or ScriptedSource()))

    async def _live(self, story: Story, source: ScriptedSource) -> None:
        memory = NodeStore(self._engine, NodeCheckpoint)
        hub = Hub(
            FleetState(),
            [source],
            memory,
            publish_seconds=0.01,
            checkpoint_seconds=0.01,
            clock=lambda: self.now,
        )
        running = asyncio.ensure_future(hub.run())
        try:
            await until(lambda: hub.ready)
            await story(hub, source)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            memory.close()
        assert len(asyncio.all_tasks()) == 1
        assert not hub.ready


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait on the loop for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    engine = open_database(tmp_path)
    yield Life(engine)
    engine.dispose()


def test_after_a_restart_a_node_is_silent_and_not_absent(life: Life) -> None:
    async def first(hub: Hub, source: ScriptedSource) -> None:
        source.put(received(1, name="gpu01", labels={"rack": "a"}))
        await until(lambda: hub.reports_received == 1)

    async def second(hub: Hub, _: ScriptedSource) -> None:
        (node,) = hub.fleet.view(life.now).nodes
        assert (node.name, node.silent, node.labels) == ("gpu01", True, {"rack": "a"})
        assert node.gpus[0].verdict.state == "unknown"
        assert hub.fleet.view(life.now).summary.nodes_reporting == 0

    life.live(first)
    life.now += 600
    life.live(second)


def test_reports_received_at_shutdown_are_saved(life: Life) -> None:
    async def first(hub: Hub, _: ScriptedSource) -> None:
        hub.deliver(received(7))

    async def second(hub: Hub, _: ScriptedSource) -> None:
        assert hub.fleet.view(life.now).nodes[0].sequence == 7

    life.live(first)
    life.live(second)


def test_a_report_is_acknowledged_as_durable_only_once_it_is_on_disk(
    life: Life, tmp_path: Path
) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        with disk_is_busy(life):
            source.put(received(1))
            await until(lambda: hub.reports_received == 1)
            hub.publish()
            hub.checkpoint()
            hub.checkpoint()
            assert hub.receipt(taken(1)).kept is None
        await until(lambda: hub.receipt(taken(1)).kept == 1)
        assert hub.receipt(taken(1)).hub == hub.instance_id

    life.live(story)


@contextmanager
def disk_is_busy(life: Life) -> Iterator[None]:
    """Nobody else can write to the database meanwhile."""
    with life._engine.connect() as connection:
        connection.exec_driver_sql("ROLLBACK") if connection.in_transaction() else None
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            raw.execute("ROLLBACK")


def test_failures_to_save_nodes_stay_counted_when_nodes_are_saved_again(life: Life) -> None:
    def failures(hub: Hub) -> float:
        return hub.counts()["memory_failures_total"]

    async def story(hub: Hub, source: ScriptedSource) -> None:
        with disk_is_busy(life):
            source.put(received(1))
            await until(lambda: failures(hub) > 0, 60.0)
        await until(lambda: hub.receipt(taken(1)).kept == 1, 60.0)
        assert failures(hub) > 0

    life.live(story)


def test_the_durable_sequence_is_per_run_of_the_agent(life: Life) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        source.put(received(5))
        await until(lambda: hub.receipt(taken(5)).kept == 5)
        assert hub.receipt(taken(1, run_id="run-2")).kept is None
        await hub.remove(taken(5).node_id)
        assert hub.receipt(taken(5)).kept is None

    life.live(story)


def test_a_late_report_does_not_change_the_current_state(life: Life) -> None:
    async def first(hub: Hub, source: ScriptedSource) -> None:
        for delivery in (
            received(1),
            received(3),
            received(2, age_seconds=1),
            received(2, age_seconds=1),
        ):
            source.put(delivery)
        await until(lambda: hub.reports_received == 4)
        (node,) = hub.fleet.view(life.now).nodes
        assert (node.sequence, node.missing_reports) == (3, 0)

    async def second(hub: Hub, source: ScriptedSource) -> None:
        assert hub.fleet.view(life.now).nodes[0].missing_reports == 0

    life.live(first)
    life.live(second)


def test_a_late_report_becomes_durable_without_further_reports(life: Life) -> None:
    async def first(hub: Hub, source: ScriptedSource) -> None:
        source.put(received(1))
        source.put(received(3))
        await until(lambda: hub.receipt(taken(3)).kept == 3)
        source.put(received(2, age_seconds=1))
        await until(lambda: hub.reports_received == 3)

    async def second(hub: Hub, _: ScriptedSource) -> None:
        assert hub.fleet.view(life.now).nodes[0].missing_reports == 0

    life.live(first)
    life.live(second)


def test_a_failure_is_shown_on_its_node_until_it_recovers(life: Life) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        (expected,) = hub.fleet.view(life.now).nodes
        assert (expected.name, expected.silent, expected.age_seconds) == ("gpu01", True, None)
        source.put(failed())
        await until(lambda: hub.delivery_failures == 1)
        assert hub.fleet.view(life.now).nodes[0].trouble == "no route to host"
        source.put(received(1))
        await until(lambda: hub.reports_received == 1)
        (node,) = hub.fleet.view(life.now).nodes
        assert (node.trouble, node.silent, node.via) == (None, False, "scripted")

    life.live(story, ScriptedSource(["gpu01"]))


def test_the_age_of_a_report_counts_and_not_the_clock_of_its_node(life: Life) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        source.put(received(1, age_seconds=2.0, taken_at=NOON - 86_400))
        await until(lambda: hub.reports_received == 1)
        (node,) = hub.fleet.view(life.now).nodes
        assert (node.age_seconds, node.silent) == (2.0, False)
        assert node.clock_skew_seconds == pytest.approx(86_398)

    life.live(story)


def test_a_source_with_a_bug_is_restarted_and_the_hub_continues(
    life: Life, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spine, "_RESTART_SECONDS", 0.01)
    source = ScriptedSource(["gpu01"], bug=ZeroDivisionError("oh"))

    async def story(hub: Hub, source: ScriptedSource) -> None:
        await until(lambda: source.runs == 2)
        assert "oh" in (hub.fleet.view(life.now).nodes[0].trouble or "")
        source.put(received(1))
        await until(lambda: hub.reports_received == 1)

    with caplog.at_level(logging.ERROR):
        life.live(story, source)
    assert "source=scripted has a bug" in caplog.text


def test_a_change_is_published_and_increments_the_version(life: Life) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        before = hub.version
        listener = hub.stream.subscribe()
        assert b"event: fleet" in (await listener.next_chunk() or b"")
        source.put(received(1))
        assert b"event: change" in (await listener.next_chunk() or b"")
        assert hub.version > before
        assert hub.counts()["listeners"] == 1
        listener.close()

    life.live(story)


def test_a_node_that_falls_silent_is_published(life: Life) -> None:
    async def story(hub: Hub, source: ScriptedSource) -> None:
        source.put(received(1))
        await until(lambda: hub.reports_received == 1)
        await until(lambda: not hub.fleet._dirty)
        before = hub.version
        life.now += 60
        await until(lambda: hub.version > before)
        assert hub.fleet.view(life.now).nodes[0].silent

    life.live(story)


def test_shutdown_leaves_no_thread(life: Life) -> None:
    async def nothing(_: Hub, __: ScriptedSource) -> None:
        return

    life.live(nothing)
    before = set(threading.enumerate())
    life.live(nothing)
    assert set(threading.enumerate()) <= before
