"""The `push` source: reports are delivered while it runs, and only then."""

import asyncio

from fleet_smi.errors import Undecodable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.hub.sources.push import PushSource
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import Report
from tests.builders import NOON, gpu, snapshot


def report(*sequences: int) -> Report:
    taken = [snapshot(gpu(0), sequence=each, taken_at=NOON + each) for each in sequences]
    return Report(version=1, sent_at=NOON + 10, snapshots=tuple(taken))


def delivered(*reports: Report) -> list[Delivery]:
    async def scenario() -> list[Delivery]:
        source, found = PushSource(), list[Delivery]()
        assert not source.is_running
        source.receive(report(0))  # nobody is there to hear it
        running = asyncio.ensure_future(source.run(found.append))
        await asyncio.sleep(0)  # it listens from its first step on
        for each in reports:
            source.receive(each)
        source.reject("id-of-gpu01", Undecodable("not a report"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not source.is_running
        return found

    return asyncio.run(scenario())


def test_a_batch_is_delivered_in_order_each_with_its_age() -> None:
    *taken, failed = delivered(report(1, 2, 3), report(4))
    assert [each.result.sequence for each in taken if isinstance(each.result, Snapshot)] == [
        1,
        2,
        3,
        4,
    ]
    assert [each.age_seconds for each in taken] == [9.0, 8.0, 7.0, 6.0]
    assert {each.target for each in taken} == {"id-of-gpu01"}
    assert str(failed.result) == "id-of-gpu01: not a report"


def test_polling_returns_nothing() -> None:
    source = PushSource()
    assert asyncio.run(source.poll()) == ()
    assert source.targets == ()


def test_a_pushed_snapshot_without_an_interval_gets_a_default() -> None:
    untold = snapshot(gpu(0), interval_seconds=None)
    (taken, _) = delivered(Report(version=1, sent_at=NOON, snapshots=(untold,)))
    assert isinstance(taken.result, Snapshot)
    assert taken.result.interval_seconds == 300.0
