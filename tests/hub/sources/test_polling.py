"""The polling schedule: no drift, no queueing, back-off, and no target delays another."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import DeliveryError, Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.hub.sources.polling import _next_due, poll_all, poll_on_interval
from tests.builders import snapshot


def delivery(target: str) -> Delivery:
    return Delivery(source="test", target=target, result=snapshot())


def failure(target: str) -> Delivery:
    return Delivery(source="test", target=target, result=Unreachable("away", target))


@given(
    due=st.floats(0, 1e6),
    late=st.floats(0, 1e3),
    interval=st.floats(0.05, 100),
)
def test_the_next_tick_is_on_the_grid_and_not_in_the_past(
    due: float, late: float, interval: float
) -> None:
    after = _next_due(due, due + late, interval, failures=0)
    steps = (after - due) / interval
    assert after >= due + late - 1e-6
    assert steps == pytest.approx(round(steps), abs=1e-3)
    assert steps >= 0.999


@given(failures=st.integers(2, 10_000), interval=st.floats(0.05, 100))
def test_failing_targets_back_off_to_at_most_a_minute(failures: int, interval: float) -> None:
    wait = _next_due(0.0, 0.0, interval, failures)
    assert interval / 2 <= wait <= max(60.0, interval)


def test_a_single_failure_does_not_change_the_schedule() -> None:
    assert _next_due(10.0, 10.5, 2.0, failures=1) == 12.0


@pytest.mark.parametrize(
    ("took", "due"), [(0.0, 12.0), (1.9, 12.0), (2.0, 12.0), (2.1, 14.0), (7.0, 18.0)]
)
def test_a_slow_round_skips_ticks(took: float, due: float) -> None:
    assert _next_due(10.0, 10.0 + took, 2.0, failures=0) == due


def test_a_hanging_target_does_not_delay_others() -> None:
    async def scenario() -> set[str]:
        seen, enough = set[str](), asyncio.Event()

        async def ask(target: str) -> Delivery:
            if target == "hung":
                await asyncio.Event().wait()
            return delivery(target)

        def deliver(each: Delivery) -> None:
            seen.add(each.target)
            if len(seen) == 2:
                enough.set()

        asking = asyncio.ensure_future(
            poll_on_interval("test", ["a", "hung", "b"], ask, deliver, 0.01)
        )
        async with asyncio.timeout(60):
            await enough.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1
        return seen

    assert asyncio.run(scenario()) == {"a", "b"}


def test_a_failing_target_is_delivered_and_polled_again() -> None:
    async def scenario() -> list[Delivery]:
        seen, enough = list[Delivery](), asyncio.Event()

        async def ask(target: str) -> Delivery:
            return failure(target) if len(seen) < 2 else delivery(target)

        def deliver(each: Delivery) -> None:
            seen.append(each)
            if len(seen) == 3:
                enough.set()

        asking = asyncio.ensure_future(poll_on_interval("test", ["a"], ask, deliver, 0.01))
        async with asyncio.timeout(60):
            await enough.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return seen

    assert [isinstance(each.result, Unreachable) for each in asyncio.run(scenario())] == [
        True,
        True,
        False,
    ]


def test_a_bug_met_by_one_target_is_its_failure_and_the_others_are_polled_on() -> None:
    async def scenario() -> dict[str, Delivery]:
        seen, rounds, enough = dict[str, Delivery](), dict[str, int](), asyncio.Event()

        async def ask(target: str) -> Delivery:
            if target == "strange":
                raise RuntimeError("the handler is closed")
            return delivery(target)

        def deliver(each: Delivery) -> None:
            seen[each.target] = each
            rounds[each.target] = rounds.get(each.target, 0) + 1
            if rounds.get("a", 0) > 2 and rounds.get("strange", 0) > 1:
                enough.set()

        targets = ["a", "strange"]
        asking = asyncio.ensure_future(poll_on_interval("test", targets, ask, deliver, 0.01))
        async with asyncio.timeout(60):
            await enough.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return seen

    seen = asyncio.run(scenario())
    assert seen["a"] == delivery("a")
    failed = seen["strange"].result
    assert isinstance(failed, DeliveryError)
    assert str(failed) == "strange: bug: RuntimeError('the handler is closed')"


def test_all_targets_are_polled_concurrently_and_returned_in_order() -> None:
    async def scenario() -> list[str]:
        together = asyncio.Barrier(3)

        async def ask(target: str) -> Delivery:
            await together.wait()
            return delivery(target)

        async with asyncio.timeout(60):
            return [each.target for each in await poll_all(["a", "b", "c"], ask)]

    assert asyncio.run(scenario()) == ["a", "b", "c"]
