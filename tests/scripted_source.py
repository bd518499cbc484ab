"""A source that delivers what a test tells it to, for a hub whose own workings are tested."""

import asyncio
from collections.abc import Sequence

from fleet_smi.fleet.delivery import DeliverCallback, Delivery


class ScriptedSource:
    """Delivers what is put in, on the hub's own loop; `breaks` is a bug that it has once."""

    name = "scripted"

    def __init__(self, targets: Sequence[str] = (), bug: Exception | None = None) -> None:
        self.targets = targets
        self.runs = 0
        self._breaks = bug
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue()

    def put(self, delivery: Delivery) -> None:
        """Let this be delivered next."""
        self._waiting.put_nowait(delivery)

    async def poll(self) -> Sequence[Delivery]:
        """All that was put in."""
        return [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver until cancelled."""
        self.runs += 1
        breaks, self._breaks = self._breaks, None
        if breaks is not None:
            raise breaks
        while True:
            deliver(await self._waiting.get())
