"""How targets are asked again and again: each on its own ticks, none delaying another."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery

PollTarget = Callable[[str], Awaitable[Delivery]]
_BACK_OFF_AT_MOST_SECONDS = 60.0


async def ticks(interval_seconds: float) -> AsyncIterator[None]:
    """Once at the start and then by a fixed grid: a slow round neither drifts nor stacks."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        yield
        due = _next(due, loop.time(), interval_seconds, failures=0)
        await asyncio.sleep(due - loop.time())


async def poll_all(targets: Sequence[str], poll: PollTarget) -> list[Delivery]:
    """One delivery of each target, all asked at once."""
    return list(await asyncio.gather(*(poll(target) for target in targets)))


async def poll_on_interval(
    targets: Sequence[str], poll: PollTarget, deliver: DeliverCallback, interval_seconds: float
) -> None:
    """Ask each target on its own ticks until cancelled; those that fail, ever more rarely."""
    async with asyncio.TaskGroup() as group:
        for target in targets:
            group.create_task(_keep_asking(target, poll, deliver, interval_seconds))


async def _keep_asking(
    target: str, ask: PollTarget, deliver: DeliverCallback, interval: float
) -> None:
    loop = asyncio.get_running_loop()
    # Spread a little: a thousand nodes are not asked in the same instant.
    due = loop.time() + random.uniform(0.0, min(interval, 1.0))  # noqa: S311
    failures = 0
    while True:
        await asyncio.sleep(due - loop.time())
        delivery = await ask(target)
        deliver(delivery)
        failures = failures + 1 if isinstance(delivery.result, DeliveryError) else 0
        due = _next(due, loop.time(), interval, failures)


def _next(due: float, now: float, interval: float, failures: int) -> float:
    """When to go again: by the grid of the interval, or later where there was no answer."""
    if failures > 1:
        longest = max(interval, _BACK_OFF_AT_MOST_SECONDS)
        wait = min(longest, interval * 2.0 ** min(failures - 1, 16))
        return now + wait * random.uniform(0.5, 1.0)  # noqa: S311
    return due + interval * max(1.0, -(-(now - due) // interval))
