"""Polling schedule: each target on its own fixed interval, with back-off after failures."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery

logger = logging.getLogger(__name__)

PollTarget = Callable[[str], Awaitable[Delivery]]
_MAX_BACKOFF_SECONDS = 60.0


async def ticks(interval_seconds: float) -> AsyncIterator[None]:
    """Yield immediately, then on a fixed grid: slow rounds neither drift nor queue up."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        yield
        due = _next_due(due, loop.time(), interval_seconds, failures=0)
        await asyncio.sleep(due - loop.time())


async def poll_all(targets: Sequence[str], poll: PollTarget) -> list[Delivery]:
    """Poll all targets concurrently; one delivery of each."""
    return list(await asyncio.gather(*(poll(target) for target in targets)))


async def poll_each(targets: Sequence[str], poll: PollTarget, deliver: DeliverCallback) -> None:
    """Poll all targets concurrently, and deliver each as soon as it has answered."""
    for answered in asyncio.as_completed([poll(target) for target in targets]):
        deliver(await answered)


async def poll_on_interval(
    source: str,
    targets: Sequence[str],
    poll: PollTarget,
    deliver: DeliverCallback,
    interval_seconds: float,
) -> None:
    """Poll each target on its own schedule until cancelled; failing ones less and less often."""

    async def poll_guarded(target: str) -> Delivery:
        # A bug that one target meets is a failure of that target: the others are polled on.
        try:
            return await poll(target)
        except Exception as error:
            logger.exception("%s:%s: polling has a bug", source, target)
            failure = DeliveryError(f"bug: {error!r}", target)
            return Delivery(source=source, target=target, result=failure)

    await run_together(
        *(_poll_repeatedly(target, poll_guarded, deliver, interval_seconds) for target in targets)
    )


async def run_together(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all of them; if one fails, or this is cancelled, cancel the others and wait for them."""
    # Not a TaskGroup: Python 3.10 has none, and `--ssh` runs there as well.
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _poll_repeatedly(
    target: str, poll: PollTarget, deliver: DeliverCallback, interval: float
) -> None:
    loop = asyncio.get_running_loop()
    # Jitter: a thousand nodes must not be polled in the same instant.
    due = loop.time() + random.uniform(0.0, min(interval, 1.0))  # noqa: S311
    failures = 0
    while True:
        await asyncio.sleep(due - loop.time())
        delivery = await poll(target)
        deliver(delivery)
        failures = failures + 1 if isinstance(delivery.result, DeliveryError) else 0
        due = _next_due(due, loop.time(), interval, failures)


def _next_due(due: float, now: float, interval: float, failures: int) -> float:
    """The time of the next poll: on the grid, or after an exponential back-off with jitter."""
    # A single failure does not change the schedule: the next poll is its retry.
    if failures > 1:
        longest = max(interval, _MAX_BACKOFF_SECONDS)
        # The exponent is bounded: a node that fails for weeks must not overflow a float.
        wait = min(longest, interval * 2.0 ** min(failures - 1, 16))
        # Jitter: targets that failed together must not be polled together again.
        return now + wait * random.uniform(0.5, 1.0)  # noqa: S311
    # The next point of the grid after now (a ceiling division), at least one interval on.
    return due + interval * max(1.0, -(-(now - due) // interval))
