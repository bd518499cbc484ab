"""A fleet without a hub: sources that are asked when somebody looks."""

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
    """Stands in for a hub; remembers what it saw for as long as it lives."""

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
        """Ask every node once and judge what they say."""
        for delivery in asyncio.run(self._asked()):
            self._take(delivery, interval_seconds)
        return self._fleet.view(self._clock())

    async def _asked(self) -> Iterable[Delivery]:
        rounds = await asyncio.gather(*map(self._looked, self._sources))
        return [delivery for each in rounds for delivery in each]

    async def _looked(self, source: Source) -> Sequence[Delivery]:
        """What one source finds; that it has no place to look at is a value beside others."""
        try:
            return await source.poll()
        except DeliveryError as error:
            if len(self._sources) == 1:
                raise
            return [Delivery(source=source.name, target=error.node or source.name, result=error)]

    def _take(self, delivery: Delivery, interval_seconds: float | None) -> None:
        via, now = Via(delivery.source, delivery.target), self._clock()
        if isinstance(delivery.result, DeliveryError):
            self._fleet.record_failure(via, delivery.result.message, now)
        elif delivery.result is None:
            self._fleet.drop_target(via)
        else:
            snapshot = _at_this_pace(delivery.result, interval_seconds)
            self._fleet.apply(snapshot, now - delivery.age_seconds, via)


def _at_this_pace(snapshot: Snapshot, interval_seconds: float | None) -> Snapshot:
    """A node that is only asked is as old as the asking: three looks without it make it silent."""
    if snapshot.interval_seconds is not None or interval_seconds is None:
        return snapshot
    return replace(snapshot, interval_seconds=interval_seconds)
