"""The `self` source: this machine is read at its interval, never twice at a time."""

import asyncio
import threading

import pytest

from fleet_smi.errors import Unreachable
from fleet_smi.hub.sources.self import SelfSource
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, snapshot
from tests.delivery.source_runner import run_source
from tests.machines import wait_until


def test_this_machine_is_read_at_the_interval() -> None:
    paces = list[float]()

    def take(interval_seconds: float) -> Snapshot:
        paces.append(interval_seconds)
        return snapshot(gpu(0), sequence=len(paces))

    with run_source(SelfSource(take, 0.01)) as received:
        received.wait_for_sequence(3)
    assert set(paces) == {0.01}
    assert received.deliveries[0].age_seconds == 0.0


def test_a_hung_driver_is_a_failure_and_is_not_read_twice() -> None:
    let_go, begun = threading.Event(), list[int]()

    def take(_: float) -> Snapshot:
        begun.append(1)
        let_go.wait(20)
        return snapshot(gpu(0), sequence=7)

    with run_source(SelfSource(take, 0.01, timeout_seconds=0.05)) as received:
        assert isinstance(received.wait_for_error(), Unreachable)
        wait_until(lambda: len(received.deliveries) >= 3)
        assert len(begun) == 1
        let_go.set()
        received.wait_for_sequence(7)
    assert "could not be read in 0.05 s" in str(received.wait_for_error())


def test_polling_once_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    (delivery,) = asyncio.run(SelfSource(lambda _: snapshot(gpu(0))).poll())
    assert isinstance(delivery.result, Snapshot)
    assert set(threading.enumerate()) <= before


def test_a_bug_while_reading_is_raised() -> None:
    def take(_: float) -> Snapshot:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(SelfSource(take).poll())
