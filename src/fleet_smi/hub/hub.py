"""The spine of the hub: sources -> fleet -> memory + stream. Read this first."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from fleet_smi.errors import DeliveryError
from fleet_smi.hub.delivery import Delivery, Source
from fleet_smi.hub.fleet import Fleet, Remembered, Via
from fleet_smi.hub.memory import Memory
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.stream import Stream
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import Receipt

_Sequence = tuple[str | None, int]


class Hub:
    """All that is believed, and who is told of it; lives on one event loop."""

    def __init__(
        self,
        fleet: Fleet,
        sources: Sequence[Source],
        memory: Memory[Remembered],
        *,
        interval_seconds: float | None = None,
        publish_seconds: float = 1.0,
        remember_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.life = secrets.token_hex(8)
        self.fleet = fleet
        self.stream = Stream(fleet, self.life)
        self.clock = clock
        self.ready = False
        self.version = self.reports = self.failures = 0
        self._sources = sources
        self._memory = memory
        self._interval_seconds = interval_seconds
        self._publish_seconds = publish_seconds
        self._remember_seconds = remember_seconds
        self._unsaved: set[str] = set()
        self._saving: deque[tuple[int, dict[str, _Sequence]]] = deque()
        self._kept: dict[str, _Sequence] = {}

    async def run(self) -> None:
        """Hear and tell until cancelled; what is not yet remembered is written at the end."""
        self._recall()
        try:
            async with asyncio.TaskGroup() as group:
                for source in self._sources:
                    group.create_task(source.run(self.deliver))
                group.create_task(self._publish())
                group.create_task(self._remember())
                self.ready = True
        finally:
            self.ready = False
            self.publish()
            self.remember()

    def deliver(self, delivery: Delivery) -> None:
        """Take in what a source heard, or why it heard nothing."""
        via, now = Via(delivery.source, delivery.target), self.clock()
        if isinstance(delivery.what, DeliveryError):
            self.failures += 1
            self.fleet.failed(via, delivery.what.words, now)
        else:
            self.reports += 1
            self.fleet.apply(delivery.what, now - delivery.age_seconds, via)

    def receipt(self, snapshot: Snapshot) -> Receipt:
        """What the node that sent this is told: up to where its reports are safe."""
        run_id, sequence = self._kept.get(snapshot.node_id, (None, 0))
        return Receipt(
            hub=self.life,
            kept=sequence if run_id == snapshot.run_id else None,
            interval_seconds=self._interval_seconds,
        )

    def remove(self, node_id: str) -> bool:
        """Forget a node; whether there was one."""
        self._kept.pop(node_id, None)
        return self.fleet.remove(node_id)

    def counts(self) -> Mapping[str, float]:
        """How the hub itself fares, for whoever watches it."""
        return {
            "reports_total": self.reports,
            "delivery_failures_total": self.failures,
            "listeners": self.stream.listeners,
            "memory_failures": self._memory.failures,
        }

    def publish(self) -> None:
        """Tell the listeners what has changed since this was last done."""
        now = self.clock()
        self.fleet.tick(now)
        changed = self.fleet.take_dirty()
        if changed:
            self.version += 1
            self._unsaved |= changed
        self.stream.publish(changed, now)

    def remember(self) -> None:
        """Have what has changed written down, and see what has been."""
        while self._saving and self._saving[0][0] <= self._memory.kept:
            self._kept.update(self._saving.popleft()[1])
        if self._unsaved:
            nodes = {node_id: self.fleet.remembered(node_id) for node_id in self._unsaved}
            self._unsaved = set()
            known = [node for node in nodes.values() if node is not None]
            gone = [node_id for node_id, node in nodes.items() if node is None]
            self._saving.append((self._memory.save(known, gone), _sequences(known)))

    def _recall(self) -> None:
        for remembered in self._memory.load():
            self.fleet.restore(remembered)
        for source in self._sources:
            for target in source.targets:
                self.fleet.expect(Via(source.name, target))

    async def _publish(self) -> None:
        async for _ in ticks(self._publish_seconds):
            self.publish()

    async def _remember(self) -> None:
        async for _ in ticks(self._remember_seconds):
            self.remember()


def _sequences(nodes: Iterable[Remembered]) -> dict[str, _Sequence]:
    return {node.node_id: (node.snapshot.run_id, node.snapshot.sequence) for node in nodes}
