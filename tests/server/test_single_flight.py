"""The single-flight cache: shared computations, pauses, and never a stale result."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.model.fleet import NodeView
from fleet_smi.server import endpoint, single_flight
from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.single_flight import SingleFlightCache, iterate_cooperatively
from tests.builders import gpu, process
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


class Kitchen:
    """Makes numbered things, each of which takes this much of the processor's time."""

    def __init__(self, seconds: float) -> None:
        self.revision = 0
        self.shared = SingleFlightCache(lambda: self.revision)
        self.made = 0
        self.began: list[float] = []
        self.ended: list[float] = []
        self._seconds = seconds

    async def make(self) -> int:
        self.began.append(asyncio.get_running_loop().time())
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0)
        self.made += 1
        self.ended.append(asyncio.get_running_loop().time())
        return self.made

    async def ask(self, for_what: str = "soup") -> int:
        return await self.shared.get_or_compute(for_what, self.make)


def test_concurrent_requests_for_one_key_share_one_computation() -> None:
    async def scenario() -> tuple[set[int], int]:
        kitchen = Kitchen(0.0)
        together = await asyncio.gather(kitchen.ask(), kitchen.ask(), kitchen.ask())
        return set(together), await kitchen.ask()

    assert asyncio.run(scenario()) == ({1}, 2)


def test_an_expensive_result_is_cached_for_a_while() -> None:
    async def scenario() -> None:
        kitchen = Kitchen(0.01)
        assert [await kitchen.ask(), await kitchen.ask(), await kitchen.ask("cake")] == [1, 1, 2]
        while kitchen.shared._flights:
            await asyncio.sleep(0.01)
        assert await kitchen.ask() == 3

    asyncio.run(scenario())


def test_a_computation_begun_before_a_change_is_not_shared_after_it() -> None:
    async def scenario() -> None:
        kitchen = Kitchen(0.0)
        before = asyncio.ensure_future(kitchen.ask())
        while not kitchen.began:
            await asyncio.sleep(0)
        kitchen.revision += 1
        after = [asyncio.ensure_future(kitchen.ask()) for _ in range(3)]
        assert await before == 1
        assert set(await asyncio.gather(*after)) == {2}

    asyncio.run(scenario())


def test_an_expensive_computation_is_repeated_only_after_a_pause() -> None:
    async def scenario() -> None:
        kitchen = Kitchen(0.02)
        assert await kitchen.ask() == 1
        kitchen.revision += 1
        waiting = [asyncio.ensure_future(kitchen.ask())]
        await asyncio.sleep(0.01)
        kitchen.revision += 1  # while they wait: the next making has this as well
        waiting.append(asyncio.ensure_future(kitchen.ask()))
        assert set(await asyncio.gather(*waiting)) == {2}
        assert kitchen.began[1] - kitchen.ended[0] >= 5 * 0.02

    asyncio.run(scenario())


def test_only_its_own_processor_time_counts_as_cost() -> None:
    async def scenario() -> None:
        kitchen, others = Kitchen(0.0), Kitchen(0.02)
        await asyncio.gather(kitchen.ask(), others.make())
        assert await kitchen.ask() == 2

    asyncio.run(scenario())


def test_a_failure_reaches_every_waiter_and_is_not_cached() -> None:
    async def broken() -> int:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def scenario() -> None:
        kitchen = Kitchen(0.0)
        asking = [kitchen.shared.get_or_compute("soup", broken) for _ in range(2)]
        failures = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in failures] == [ZeroDivisionError] * 2
        assert await kitchen.ask() == 1

    asyncio.run(scenario())


def test_a_cancelled_waiter_does_not_cancel_the_others() -> None:
    async def scenario() -> int:
        kitchen = Kitchen(0.0)
        hasty, patient = (asyncio.ensure_future(kitchen.ask()) for _ in range(2))
        await asyncio.sleep(0)
        hasty.cancel()
        return await patient

    assert asyncio.run(scenario()) == 1


def test_long_iterations_yield_to_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_flight, "_SLICE_SECONDS", 0.0)

    async def scenario() -> list[object]:
        done: list[object] = []
        asyncio.get_running_loop().call_soon(done.append, "another")
        async for each in iterate_cooperatively([1, 2, 3], Backpressure()):
            done.append(each)
        return done

    assert asyncio.run(scenario()) == [1, "another", 2, 3]


PATHS = ("fleet", "people", "free", "free?why=false", "fleet?state=busy")


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything take longer than a turn, as with thousands of nodes."""
    monkeypatch.setattr(single_flight, "_SLICE_SECONDS", 0.0)


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize("path", PATHS)
def test_requests_with_equal_rights_share_the_view_of_a_large_fleet(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "_PAUSE_FACTOR", 1e9)
    monkeypatch.setattr(single_flight, "_MAX_PAUSE_SECONDS", 600.0)
    with ThreadedHub(tmp_path) as hub:
        secret = process(command="python secret.py")
        cards = [gpu(at, uuid=f"GPU-{at}", processes=(secret,)) for at in range(9)]
        hub.join_and_report(snapshot_now("gpu01", *cards, gpu(9, uuid="GPU-9")))
        viewer, admin = hub.token("viewer"), hub.token("admin")
        first = hub.request("GET", f"/api/v1/{path}", token=viewer)
        whole = hub.request("GET", f"/api/v1/{path}", token=admin)
        again = hub.request("GET", f"/api/v1/{path}")
        assert again.body == first.body
        assert b"secret.py" not in again.body
        tag = again.headers["etag"]
        assert tag == first.headers["etag"] != whole.headers["etag"]
        assert hub.request("GET", f"/api/v1/{path}", If_None_Match=tag).status == 304


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize("path", PATHS)
def test_an_acknowledged_change_is_in_the_next_response_of_a_large_fleet(
    path: str, tmp_path: Path
) -> None:
    with ThreadedHub(tmp_path) as hub:
        token, admin = (
            hub.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-0"))),
            hub.token("admin"),
        )
        seen = hub.request("GET", f"/api/v1/{path}")
        for sequence in range(2, 7):
            users = [process(pid, user=f"user{pid}") for pid in range(1, sequence + 1)]
            cards = [gpu(0, uuid="GPU-0", processes=(*users,)), gpu(sequence, uuid="GPU-x")]
            assert (
                hub.report(snapshot_now("gpu01", *cards, sequence=sequence), token=token).status
                == 200
            )
            response = hub.request("GET", f"/api/v1/{path}", If_None_Match=seen.headers["etag"])
            assert response.status == 200
            assert response.body != seen.body
            seen = response
        hub.request_json("PATCH", "/api/v1/nodes/id-of-gpu01", {"name": "ada"}, token=admin)
        assert b"ada" in hub.request("GET", f"/api/v1/{path}").body


def test_a_request_after_a_report_gets_a_view_begun_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, may_go_on, requested = threading.Event(), threading.Event(), list[object]()
    once = SingleFlightCache.get_or_compute

    async def counted(self: SingleFlightCache, key: tuple[object], make: Any) -> Any:
        requested.append(key)
        return await once(self, key, make)

    async def held(nodes: Iterable[NodeView], _: Backpressure) -> AsyncIterator[NodeView]:
        found = list(nodes)
        looked.set()
        while not may_go_on.is_set():
            await asyncio.sleep(0.001)
        for node in found:
            yield node

    with ThreadedHub(tmp_path) as hub, ThreadPoolExecutor() as pool:
        token = hub.join_and_report(snapshot_now("gpu01", gpu()))
        monkeypatch.setattr(endpoint, "iterate_cooperatively", held)
        monkeypatch.setattr(SingleFlightCache, "get_or_compute", counted)
        before = pool.submit(hub.request, "GET", "/api/v1/fleet")
        assert looked.wait(60.0)
        assert hub.report(snapshot_now("gpu01", gpu(), sequence=2), token=token).status == 200
        after = pool.submit(hub.request, "GET", "/api/v1/fleet")
        # Only once the second has been received may the first be answered.
        wait_until(lambda: requested.count(requested[0]) > 1)
        may_go_on.set()
        assert b'"sequence":2' not in before.result().body
        assert b'"sequence":2' in after.result().body
