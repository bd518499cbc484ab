"""The spine of the hub: sources -> fleet -> history + memory + stream. Read this first."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from fleet_smi.errors import DeliveryError
from fleet_smi.failure_log import FailureLog
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.hub.checkpointing import Checkpointer
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.stream import Stream
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import Receipt

logger = logging.getLogger(__name__)
_TURNS, _KEEPING_TURNS = 10, 5
# So many nodes at most are told of in one turn: a fleet of 2,000 takes two rounds.
_MOST_TOLD = 100
# More than that is more than a disk should have to bear: agents keep their reports for longer.
_MOST_KEPT_A_SECOND = 50
_AFTER_A_BUG_SECONDS = 30.0
_MOST_FAULTS = 10_000


def checkpoint_slots(checkpoint_seconds: float) -> TimeSlots:
    """How nodes take turns to be written down, each once in so many seconds if that can be."""
    most = max(1, round(_MOST_KEPT_A_SECOND * checkpoint_seconds / _KEEPING_TURNS))
    return TimeSlots(_KEEPING_TURNS, most)


class Hub:
    """All that is believed, and who is told of it; lives on one event loop."""

    def __init__(
        self,
        fleet: FleetState,
        sources: Sequence[Source],
        node_store: NodeStore[NodeCheckpoint],
        history: HistoryRecorder | None = None,
        *,
        interval_seconds: float | None = None,
        publish_seconds: float = 1.0,
        checkpoint_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.instance_id = secrets.token_hex(8)
        self.fleet = fleet
        self.history = history
        self.stream = Stream(fleet, self.instance_id)
        self.clock = clock
        self.ready = False
        self.reports_received = self.delivery_failures = 0
        self._sources = sources
        self._faults: dict[Via, FailureLog] = {}
        self._keeping = Checkpointer(
            fleet, node_store, history, checkpoint_slots(checkpoint_seconds)
        )
        self._interval_seconds = interval_seconds
        self._publish_seconds = publish_seconds
        self._remember_seconds = checkpoint_seconds

    @property
    def version(self) -> int:
        """Which state of the fleet this is; an acknowledged report is a new one at once."""
        return self.fleet.revision

    async def run(self) -> None:
        """Hear and tell until cancelled; what is not yet remembered is written at the end."""
        self._recall()
        try:
            async with asyncio.TaskGroup() as group:
                for source in self._sources:
                    group.create_task(self._hear(source))
                group.create_task(self._publish())
                group.create_task(self._remember())
                self.ready = True
        finally:
            self.ready = False
            self.publish()
            self.checkpoint()
            if self.history is not None:
                self.history.close()
            self.stream.close()

    def deliver(self, delivery: Delivery) -> None:
        """Take in what a source heard, or why it heard nothing."""
        via, now = Via(delivery.source, delivery.target), self.clock()
        if isinstance(delivery.result, DeliveryError):
            self.delivery_failures += 1
            self.fleet.record_failure(via, delivery.result.message, now)
            self._faults_of(via).record_failure(delivery.result)
            return
        if self._faults:
            self._heard_again(via)
        if delivery.result is None:
            self.fleet.drop_target(via)
        else:
            self.reports_received += 1
            change = self.fleet.apply(delivery.result, now - delivery.age_seconds, via)
            if change is not None:
                if self.history is not None:
                    self.history.record(change)
                if change.is_late:
                    self._keeping.invalidate(change.snapshot.node_id)

    def receipt(self, snapshot: Snapshot) -> Receipt:
        """What the node that sent this is told: up to where its reports are safe."""
        return Receipt(
            hub=self.instance_id,
            kept=self._keeping.durable_sequence(snapshot),
            interval_seconds=self._interval_seconds,
        )

    async def remove(self, node_id: str) -> bool:
        """Forget a node, on the disk as well; whether there was one."""
        known = self.fleet.remove(node_id)
        if self.history is not None:
            self.history.remove_node(node_id, self.clock())
        self._keeping.invalidate(node_id)
        self.publish()
        self.checkpoint()
        await self._keeping.wait_until_durable()
        return known

    async def label(
        self, node_id: str, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Give a node a name and labels that win over its own; whether there is such a node."""
        known = self.fleet.label(node_id, name, labels)
        if self.history is not None:
            self.history.mark_renamed(node_id)
        self.publish()
        self.checkpoint()
        await self._keeping.wait_until_durable()
        return known

    def counts(self) -> Mapping[str, float]:
        """How the hub itself fares, for whoever watches it."""
        return {
            "reports_total": self.reports_received,
            "delivery_failures_total": self.delivery_failures,
            "listeners": self.stream.subscriber_count,
            "memory_failures_total": self._keeping.consecutive_failures,
            **({} if self.history is None else self.history.counts()),
        }

    def publish(self) -> None:
        """Tell the listeners all that has changed since this was last done."""
        self._take_changes()
        self.stream.publish(self.stream.pending, self.clock())

    def checkpoint(self) -> None:
        """Have all that has changed written down, and see what has been."""
        self._keeping.flush()

    def _recall(self) -> None:
        self._keeping.restore()
        if self.history is not None:
            self.history.restore()
        for source in self._sources:
            for target in source.targets:
                self.fleet.add_target(Via(source.name, target))

    def _faults_of(self, via: Via) -> FailureLog:
        if len(self._faults) >= _MOST_FAULTS:
            self._faults.clear()
        return self._faults.setdefault(via, FailureLog(logger, f"{via.source}:{via.target}"))

    def _heard_again(self, via: Via) -> None:
        faults = self._faults.pop(via, None)
        if faults is not None:
            faults.record_success()

    async def _hear(self, source: Source) -> None:
        while True:
            try:
                await source.run(self.deliver)
            except Exception as error:  # a bug in one source must not silence the others
                logger.exception("source=%s has a bug", source.name)
                for target in source.targets:
                    self.fleet.record_failure(
                        Via(source.name, target), f"bug: {error!r}", self.clock()
                    )
            await asyncio.sleep(_AFTER_A_BUG_SECONDS)

    def _take_changes(self) -> None:
        now = self.clock()
        self.fleet.tick(now)
        if self.history is not None:
            self.history.tick(now)
        if changed := self.fleet.take_dirty():
            self.stream.enqueue(changed, now)
            self._keeping.mark_dirty(changed)

    async def _publish(self) -> None:
        turns = TimeSlots(_TURNS, _MOST_TOLD)
        async for _ in ticks(self._publish_seconds / _TURNS):
            self._take_changes()
            self.stream.publish(turns.due(self.stream.pending), self.clock())

    async def _remember(self) -> None:
        async for _ in ticks(self._remember_seconds / _KEEPING_TURNS):
            self._keeping.run_slot()
