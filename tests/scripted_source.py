"""A source that delivers what a test puts into it, for tests of the hub."""

import asyncio
from collections.abc import Sequence

from fleet_smi.fleet.delivery import DeliverCallback, Delivery


class ScriptedSource:
    """Delivers what is put in, on the hub's event loop; raises `bug` on its first run."""

    name = "scripted"

    def __init__(self, targets: Sequence[str] = (), bug: Exception | None = None) -> None:
        self.targets = targets
        self.runs = 0
        self._bug = bug
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()

    def put(self, delivery: Delivery) -> None:
        """Queue a delivery."""
        self._queue.put_nowait(delivery)

    async def poll(self) -> Sequence[Delivery]:
        """Return all queued deliveries."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver until cancelled."""
        self.runs += 1
        bug, self._bug = self._bug, None
        if bug is not None:
            raise bug
        while True:
            deliver(await self._queue.get())
