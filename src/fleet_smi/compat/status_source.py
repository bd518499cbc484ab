"""Polling of HTTP agents of older systems: the source that nvgpu and node_info share."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec.structs import replace

from fleet_smi.compat.duplicate_ids import DuplicateIdResolver
from fleet_smi.fleet.delivery import DeliverCallback, Delivery
from fleet_smi.hub.http_polling import HttpPoller, PollRequest
from fleet_smi.model.snapshot import Snapshot


class StatusSource(ABC):
    """Polls many agents concurrently, each with its own timeout."""

    name: str
    min_interval_seconds: ClassVar[float] = 0.0
    """How often an agent of this system reads its GPUs: polled faster, it repeats itself."""

    def __init__(
        self,
        targets: Sequence[str],
        request: PollRequest,
        *,
        interval_seconds: float,
        timeout_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets = tuple(targets)
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._duplicates = DuplicateIdResolver()
        self._poller = HttpPoller(self.name, targets, request, self._delivery, timeout_seconds)

    @abstractmethod
    def decode(self, target: str, body: bytes, now: float) -> Snapshot:
        """Decode a response; `taken_at` is when the agent read it, by the hub's clock."""

    async def poll(self) -> Sequence[Delivery]:
        """Poll every agent once."""
        return await self._poller.poll_once()

    async def run(self, deliver: DeliverCallback) -> None:
        """Poll every agent at the interval until cancelled."""
        await self._poller.poll_until_cancelled(deliver, self._interval_seconds)

    def _delivery(self, target: str, body: bytes) -> Delivery:
        now = self._clock()
        snapshot = self._duplicates.disambiguate(self.decode(target, body, now), target)
        # Silence is counted in intervals: with one shorter than the agent's own, an agent that is
        # polled often would be judged silent between two of its readings.
        interval = max(self._interval_seconds, self.min_interval_seconds)
        return Delivery(
            source=self.name,
            target=target,
            result=replace(snapshot, interval_seconds=interval),
            age_seconds=now - snapshot.taken_at,
            id_origin="target",
        )
