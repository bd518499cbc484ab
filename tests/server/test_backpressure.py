"""Back-pressure: more reports than fit into a time slice are queued, and none is lost."""

import asyncio
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet_smi.server import backpressure
from fleet_smi.server.backpressure import Backpressure
from tests.server.test_report_protocol import request, response
from tests.server.threaded_hub import ThreadedHub


def test_other_work_runs_while_reports_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "_SLICE_SECONDS", 0.001)

    async def scenario() -> list[int | str]:
        line, done, loop = Backpressure(), list[int | str](), asyncio.get_running_loop()

        def take(number: int) -> None:
            time.sleep(0.002)  # the work that it is
            done.append(number)

        for number in range(4):
            if line.has_capacity():
                take(number)
            else:
                line.defer(lambda number=number: take(number))  # type: ignore[misc]
        loop.call_soon(done.append, "another")
        while len(done) < 5 or not line.has_capacity():
            await asyncio.sleep(0)
        return done

    assert asyncio.run(scenario()) == [0, 1, "another", 2, 3]


def test_queries_within_their_budget_wait_for_one_slice_of_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backpressure, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(backpressure, "_MAX_QUERY_WAIT_SECONDS", 60.0)
    slices = round(backpressure._QUERY_BURST_SECONDS / backpressure._QUERY_SLICE_SECONDS)

    async def scenario() -> tuple[int, int]:
        line, handled = Backpressure(), list[int]()
        line.has_capacity()
        for number in range(10 * slices):
            line.defer(lambda number=number: handled.append(number))  # type: ignore[misc]
        for _ in range(slices):
            await line.yield_to_reports()
        within = len(handled)
        # Little of the budget comes back meanwhile.
        for _ in range(slices):
            await line.yield_to_reports()
        return within, len(handled)

    within, in_all = asyncio.run(scenario())
    assert slices <= within < 3 * slices
    assert in_all == 10 * slices


def test_queries_wait_until_no_report_is_queued_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backpressure, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(backpressure, "_QUERY_BURST_SECONDS", 0.0)

    async def scenario(count: int) -> tuple[int, list[float]]:
        line, handled, waits = Backpressure(), 0, list[float]()
        line.on_wait = waits.append

        def handle() -> None:
            nonlocal handled
            handled += 1
            if handled < count:
                line.defer(handle)

        line.has_capacity()
        for _ in range(10):
            line.defer(handle)
        await line.yield_to_reports()  # with this one the budget is used up
        await asyncio.gather(*[line.yield_to_reports() for _ in range(3)])
        return handled, waits

    handled, waits = asyncio.run(scenario(0))
    assert handled == 10
    assert waits[-1] > waits[0], "of those that came together, the last waits longest"
    monkeypatch.setattr(backpressure, "_MAX_QUERY_WAIT_SECONDS", 0.05)
    handled, _ = asyncio.run(scenario(10**9))
    assert handled > 10


def test_every_queued_report_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "_SLICE_SECONDS", 0.0)
    with ThreadedHub(tmp_path / "state") as hub, ExitStack() as open_lines:
        token = hub.join("id-of-gpu01", "gpu01")
        place = "127.0.0.1", int(hub.url.rpartition(":")[2])
        crowd = [
            open_lines.enter_context(socket.create_connection(place, timeout=60)) for _ in range(40)
        ]
        for number, line in enumerate(crowd):
            line.sendall(request(token, number))
        crowd.pop().close()
        assert {response(line).status for line in crowd} == {200}
        for number, line in enumerate(crowd, 40):  # they are accepted again after they waited
            line.sendall(request(token, number))
        assert {response(line).status for line in crowd} == {200}
