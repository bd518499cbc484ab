"""Run a source for a test, and record its deliveries."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import with_figures
from tests.machines import wait_until


class RecordedDeliveries:
    """The deliveries of a source, in the order in which they came."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def add(self, delivery: Delivery) -> None:
        """Add a delivery; one of figures alone as the snapshot that it stands for."""
        if isinstance(delivery.result, Snapshot) and delivery.figures is not None:
            snapshot = with_figures(delivery.result, delivery.figures)
            delivery = replace(delivery, result=snapshot, figures=None)
        self.deliveries.append(delivery)

    @property
    def snapshots(self) -> list[Snapshot]:
        return [each.result for each in self.deliveries if isinstance(each.result, Snapshot)]

    def wait_for_load(self, percent: float, times: int = 1) -> Snapshot:
        """Wait until snapshots whose first GPU has this load have come `times` times."""

        def matching() -> list[Snapshot]:
            return [each for each in self.snapshots if each.gpus[0].busy_percent == percent]

        wait_until(lambda: len(matching()) >= times)
        return matching()[0]

    def wait_for_sequence(self, number: int, times: int = 1) -> Snapshot:
        """Wait until snapshots of this sequence number have come `times` times."""
        wait_until(lambda: [each.sequence for each in self.snapshots].count(number) >= times)
        return next(each for each in self.snapshots if each.sequence == number)

    def wait_for_error(self, kind: type[DeliveryError] = DeliveryError) -> DeliveryError:
        """Wait for a failure of this kind that was not revoked."""
        wait_until(lambda: bool(self._errors(kind)))
        return self._errors(kind)[-1]

    def _errors(self, kind: type[DeliveryError]) -> list[DeliveryError]:
        errors: dict[str, DeliveryError | None] = {}
        for each in self.deliveries:
            if not isinstance(each.result, Snapshot):
                errors[each.target] = each.result
        return [error for error in errors.values() if isinstance(error, kind)]

    @property
    def last_received_at(self) -> float:
        """When `fleet` received the last delivery."""
        return _received_at(len(self.deliveries) - 1)

    def fleet(self) -> FleetState:
        """Apply every delivery to a fleet, as a hub does, each a moment after the one before."""
        fleet = FleetState()
        for number, delivery in enumerate(self.deliveries):
            via, now = Via(delivery.source, delivery.target), _received_at(number)
            if isinstance(delivery.result, Snapshot):
                fleet.apply(delivery.result, now, via)
            elif delivery.result is None:
                fleet.drop_target(via)
            else:
                fleet.record_failure(via, delivery.result.message, now)
        return fleet


def _received_at(number: int) -> float:
    return 1_800_000_000.0 + 0.01 * number


@contextmanager
def run_source(
    source: Source, also: DeliverCallback = lambda _: None
) -> Iterator[RecordedDeliveries]:
    """Run a source on its own event loop during a test; fail if it leaves a task behind.

    What it delivers is recorded, and passed on to `also`.
    """
    recorded, loop = RecordedDeliveries(), asyncio.new_event_loop()

    def deliver(delivery: Delivery) -> None:
        also(delivery)
        recorded.add(delivery)

    task = loop.create_task(source.run(deliver))

    def run_loop() -> None:
        loop.run_until_complete(asyncio.wait([task]))

    thread = threading.Thread(target=run_loop)
    thread.start()
    try:
        yield recorded
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        left = asyncio.all_tasks(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        assert not left
        if not task.cancelled():
            task.result()  # raises the error of a source that ended by itself
