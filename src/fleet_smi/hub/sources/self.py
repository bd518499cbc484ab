"""The `self` source: the hub's own machine, read without an agent.

`fleet_smi.local` creates it: reading drivers is code of the `node` package, which the hub may
not import.
"""

from collections.abc import Callable, Sequence

from fleet_smi.errors import Unreachable
from fleet_smi.fleet.delivery import DeliverCallback, Delivery
from fleet_smi.hub.sources.blocking_worker import BlockingWorker
from fleet_smi.hub.sources.polling import poll_on_interval
from fleet_smi.model.snapshot import Snapshot


class SelfSource:
    """Takes snapshots of this machine in a worker thread, with a timeout."""

    name = "self"
    targets: Sequence[str] = ("self",)

    def __init__(
        self,
        take_snapshot: Callable[[float], Snapshot],
        interval_seconds: float = 2.0,
        *,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._take_snapshot = take_snapshot
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._worker = BlockingWorker("self")

    async def poll(self) -> Sequence[Delivery]:
        """Read this machine once."""
        try:
            return [await self._poll_target("self")]
        finally:
            self._worker.close()

    async def run(self, deliver: DeliverCallback) -> None:
        """Read this machine repeatedly until cancelled."""
        try:
            await poll_on_interval(
                self.name, self.targets, self._poll_target, deliver, self._interval_seconds
            )
        finally:
            self._worker.close()

    async def _poll_target(self, target: str) -> Delivery:
        try:
            snapshot = await self._worker.call(
                lambda: self._take_snapshot(self._interval_seconds), self._timeout_seconds
            )
        except TimeoutError:
            message = f"this machine could not be read in {self._timeout_seconds:g} s"
            return Delivery(source=self.name, target=target, result=Unreachable(message, target))
        return Delivery(source=self.name, target=target, result=snapshot, id_origin="target")
