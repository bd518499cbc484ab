"""A fleet without a hub: polls its sources each time a view is requested (`--ssh`, `--dir`)."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds


class PolledFleet:
    """Takes the place of a hub in one command; keeps its windows while the command runs."""

    is_local = False

    def __init__(
        self,
        sources: Sequence[Source],
        thresholds: Thresholds,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.thresholds = thresholds
        self._sources = sources
        self._fleet = FleetState(thresholds)
        self._clock = clock
        for source in sources:
            for target in source.targets:
                self._fleet.add_target(Via(source.name, target))

    def view(self, interval_seconds: float | None = None) -> FleetView:
        """Poll every source once, and return the fleet as it is then."""
        for delivery in asyncio.run(self._poll_all()):
            self._apply(delivery, interval_seconds)
        return self._fleet.view(self._clock())

    async def _poll_all(self) -> Iterable[Delivery]:
        polled = await asyncio.gather(*map(self._poll, self._sources))
        return [delivery for deliveries in polled for delivery in deliveries]

    async def _poll(self, source: Source) -> Sequence[Delivery]:
        """Poll one source; beside other sources, its failure as a whole is a delivery too."""
        try:
            return await source.poll()
        except DeliveryError as error:
            # The failure of the only source is the result of the whole command.
            if len(self._sources) == 1:
                raise
            return [Delivery(source=source.name, target=error.node or source.name, result=error)]

    def _apply(self, delivery: Delivery, interval_seconds: float | None) -> None:
        via, now = Via(delivery.source, delivery.target), self._clock()
        if isinstance(delivery.result, DeliveryError):
            self._fleet.record_failure(via, delivery.result.message, now)
        elif delivery.result is None:
            self._fleet.drop_target(via)
        else:
            snapshot = _with_interval(delivery.result, interval_seconds)
            # An age, not the node's time of day: its clock may be wrong.
            self._fleet.apply(snapshot, now - delivery.age_seconds, via)


def _with_interval(snapshot: Snapshot, interval_seconds: float | None) -> Snapshot:
    """Set the polling interval where a node reports none, so that missed polls make it silent."""
    if snapshot.interval_seconds is not None or interval_seconds is None:
        return snapshot
    return replace(snapshot, interval_seconds=interval_seconds)
