"""A source that runs for a test, and what it has delivered so far."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from tests.machines import wait_until


class RecordedDeliveries:
    """What came, in the order in which it came."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    @property
    def snapshots(self) -> list[Snapshot]:
        return [each.result for each in self.deliveries if isinstance(each.result, Snapshot)]

    def wait_for_sequence(self, number: int, times: int = 1) -> Snapshot:
        """Wait until a snapshot of this number has come so many times."""
        wait_until(lambda: [each.sequence for each in self.snapshots].count(number) >= times)
        return next(each for each in self.snapshots if each.sequence == number)

    def wait_for_error(self) -> DeliveryError:
        """Wait for a failure that was not taken back."""
        wait_until(lambda: bool(self._errors()))
        return self._errors()[-1]

    def _errors(self) -> list[DeliveryError]:
        told: dict[str, DeliveryError | None] = {}
        for each in self.deliveries:
            if not isinstance(each.result, Snapshot):
                told[each.target] = each.result
        return [error for error in told.values() if error is not None]

    def fleet(self) -> FleetState:
        """What a hub believes after all this."""
        fleet = FleetState()
        for at, delivery in enumerate(list(self.deliveries)):
            if isinstance(delivery.result, Snapshot):
                moment = delivery.result.taken_at
                fleet.apply(delivery.result, moment, Via(delivery.source, delivery.target))
            elif delivery.result is None:
                fleet.drop_target(Via(delivery.source, delivery.target))
            else:
                fleet.record_failure(
                    Via(delivery.source, delivery.target), delivery.result.message, at
                )
        return fleet


@contextmanager
def run_source(source: Source) -> Iterator[RecordedDeliveries]:
    """Run a source on a loop of its own until the test is done with it; nothing stays."""
    heard, loop = RecordedDeliveries(), asyncio.new_event_loop()
    task = loop.create_task(source.run(heard.deliveries.append))

    def live() -> None:
        loop.run_until_complete(asyncio.wait([task]))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield heard
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        left = asyncio.all_tasks(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        assert not left
        if not task.cancelled():
            task.result()
