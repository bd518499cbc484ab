"""What many ask for: made once, in turns with everybody else, and kept if it was dear."""

import asyncio
import time
from pathlib import Path

import pytest

from fleet_smi.server import single_flight
from fleet_smi.server.single_flight import SingleFlightCache, iterate_cooperatively
from tests.builders import gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


class Kitchen:
    """Makes numbered things, each of which takes this much of the processor's time."""

    def __init__(self, seconds: float) -> None:
        self.shared = SingleFlightCache()
        self.made = 0
        self._seconds = seconds

    async def make(self) -> int:
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0)
        self.made += 1
        return self.made

    async def ask(self, for_what: str = "soup") -> int:
        return await self.shared.get_or_compute(for_what, self.make)


def test_those_who_ask_the_same_at_once_share_it_however_cheap() -> None:
    async def scenario() -> tuple[set[int], int]:
        kitchen = Kitchen(0.0)
        together = await asyncio.gather(kitchen.ask(), kitchen.ask(), kitchen.ask())
        return set(together), await kitchen.ask()

    assert asyncio.run(scenario()) == ({1}, 2)


def test_what_was_dear_is_kept_for_a_while_and_then_let_go() -> None:
    async def scenario() -> None:
        kitchen = Kitchen(0.01)
        assert [await kitchen.ask(), await kitchen.ask(), await kitchen.ask("cake")] == [1, 1, 2]
        while kitchen.shared._kept:
            await asyncio.sleep(0.01)
        assert await kitchen.ask() == 3
        kitchen.shared.clear()
        assert await kitchen.ask() == 4

    asyncio.run(scenario())


def test_a_failure_is_everybodys_who_waits_and_is_not_kept() -> None:
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


def test_who_gives_up_takes_nothing_from_the_others() -> None:
    async def scenario() -> int:
        kitchen = Kitchen(0.0)
        hasty, patient = (asyncio.ensure_future(kitchen.ask()) for _ in range(2))
        await asyncio.sleep(0)
        hasty.cancel()
        return await patient

    assert asyncio.run(scenario()) == 1


def test_others_have_their_turn_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_flight, "_TURN_SECONDS", 0.0)

    async def scenario() -> list[object]:
        done: list[object] = []
        asyncio.get_running_loop().call_soon(done.append, "another")
        async for each in iterate_cooperatively([1, 2, 3]):
            done.append(each)
        return done

    assert asyncio.run(scenario()) == [1, "another", 2, 3]


@pytest.mark.parametrize("path", ["fleet", "people", "free", "free?why=false", "fleet?state=busy"])
def test_of_a_large_fleet_all_who_may_see_the_same_are_told_the_same(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "_TURN_SECONDS", 0.0)
    monkeypatch.setattr(single_flight, "_LASTS_TIMES", 1e9)
    monkeypatch.setattr(single_flight, "_LASTS_AT_MOST_SECONDS", 600.0)
    with ThreadedHub(tmp_path) as hub:
        secret = process(command="python secret.py")
        cards = [gpu(at, uuid=f"GPU-{at}", processes=(secret,)) for at in range(9)]
        token = hub.join_and_report(snapshot_now("gpu01", *cards, gpu(9, uuid="GPU-9")))
        viewer, admin = hub.token("viewer"), hub.token("admin")
        first = hub.request("GET", f"/api/v1/{path}", token=viewer)
        whole = hub.request("GET", f"/api/v1/{path}", token=admin)
        hub.report(snapshot_now("gpu01", *cards, sequence=2), token=token)
        assert b'"sequence":2' in hub.request("GET", "/api/v1/nodes/id-of-gpu01").body
        again = hub.request("GET", f"/api/v1/{path}")
        assert again.body == first.body
        assert b"secret.py" not in again.body
        tag = again.headers["etag"]
        assert tag == first.headers["etag"] != whole.headers["etag"]
        assert hub.request("GET", f"/api/v1/{path}", If_None_Match=tag).status == 304
        hub.request_json("PATCH", "/api/v1/nodes/id-of-gpu01", {"name": "ada"}, token=admin)
        assert hub.request("GET", f"/api/v1/{path}").body != first.body
