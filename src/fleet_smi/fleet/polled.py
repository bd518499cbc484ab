"""A fleet without a hub: polls its sources each time a view is requested (`--ssh`, `--dir`)."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.clock_watch import ClockWatch
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source, claim_order
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds

# Most hosts answer within a second: a screen that is drawn earlier would be drawn twice.
_FIRST_PARTIAL_SECONDS, _PARTIAL_SECONDS = 1.0, 0.3
_MAX_NAMED_FAILURES = 3

ShowPartial = Callable[[FleetView, Sequence[str]], None]
"""Show what there is so far, and the names of the targets that have not answered yet."""


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
        # The user named the hosts to reach by ssh, perhaps one of them by two names.
        self._fleet = FleetState(thresholds, NodeIdentities(trusted_sources=("ssh",)))
        self._clock = clock
        self._clock_watch = ClockWatch()
        self._round = 0
        self._lock = threading.Lock()  # guards the fleet while `polling` applies to it
        self._is_polling = False
        self._targets = [Via(each.name, target) for each in sources for target in each.targets]
        self._pending: set[Via] = set()
        for via in self._targets:
            self._fleet.add_target(via)

    def view(
        self, interval_seconds: float | None = None, show_partial: ShowPartial | None = None
    ) -> FleetView:
        """Poll every source once, and return the fleet as it is then.

        While a slow target is awaited, `show_partial` gets what the others have answered.
        """
        if not self._is_polling:
            self._round += 1
            asyncio.run(self._poll_all(interval_seconds, show_partial))
        return self._current()

    @property
    def failed(self) -> list[str]:
        """Why each node failed, if every one did; of many, the first few."""
        nodes = self._current().nodes
        if not nodes or any(node.taken_at is not None or not node.trouble for node in nodes):
            return []
        named = [f"{node.name}: {node.trouble}" for node in nodes[:_MAX_NAMED_FAILURES]]
        more = len(nodes) - len(named)
        return [*named, f"and {more} more"] if more else named

    @property
    def node_ids(self) -> dict[str, str]:
        """The id of the node that each target leads to, by the id of its placeholder."""
        found = {via.placeholder_id: self._fleet.routes.node_id(via) for via in self._targets}
        return {target_id: node_id for target_id, node_id in found.items() if node_id is not None}

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Poll in the background: `view` then returns what has been answered so far.

        Each target is polled on its own schedule, so that a slow one delays no other.
        """
        loop, answered = asyncio.new_event_loop(), threading.Event()
        self._pending = set(self._targets)

        def deliver(delivery: Delivery) -> None:
            with self._lock:
                self._apply(delivery, None)
            if not self._pending:
                answered.set()

        task = loop.create_task(self._run_sources(deliver))
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(asyncio.wait([task])), daemon=True
        )
        thread.start()
        self._is_polling = True
        answered.wait(_FIRST_PARTIAL_SECONDS)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()
            loop.close()

    def _current(self) -> FleetView:
        with self._lock:
            return self._fleet.view(self._read_clock())

    async def _run_sources(self, deliver: DeliverCallback) -> None:
        await asyncio.gather(*(source.run(deliver) for source in self._sources))

    async def _poll_all(
        self, interval_seconds: float | None, show_partial: ShowPartial | None
    ) -> None:
        self._pending = set(self._targets)

        def deliver(delivery: Delivery) -> None:
            self._apply(delivery, interval_seconds)

        each = show_partial is not None
        polls = asyncio.gather(
            *(self._poll(source, deliver, each=each) for source in self._sources)
        )
        wait_seconds, shown = _FIRST_PARTIAL_SECONDS, -1
        while show_partial is not None and not polls.done():
            await asyncio.wait([polls], timeout=wait_seconds)
            wait_seconds = _PARTIAL_SECONDS
            if not polls.done() and shown != len(self._pending):
                shown = len(self._pending)
                show_partial(self._current(), sorted(via.target for via in self._pending))
        await polls

    async def _poll(self, source: Source, deliver: DeliverCallback, *, each: bool) -> None:
        """Poll one source; beside other sources, its failure as a whole is a delivery too.

        With `each`, its targets are delivered as they answer, where the source can do that.
        """
        poll_each = getattr(source, "poll_each", None) if each else None
        try:
            if poll_each is not None:
                await poll_each(deliver)
                return
            deliveries = await source.poll()
        except DeliveryError as error:
            # The failure of the only source is the result of the whole command.
            if len(self._sources) == 1:
                raise
            target = error.node or source.name
            deliveries = [Delivery(source=source.name, target=target, result=error)]
        for delivery in sorted(deliveries, key=claim_order):
            deliver(delivery)

    def _read_clock(self) -> float:
        """The time; where the clock was set back, the fleet continues from there."""
        now = self._clock()
        if step := self._clock_watch.step_at(now, None):
            self._fleet.shift_times(step)
        return now

    def _apply(self, delivery: Delivery, interval_seconds: float | None) -> None:
        via, now = Via(delivery.source, delivery.target), self._read_clock()
        self._pending.discard(via)
        if isinstance(delivery.result, DeliveryError):
            self._fleet.record_failure(via, delivery.result.message, now)
        elif delivery.result is None:
            self._fleet.drop_target(via)
        else:
            snapshot = _with_interval(delivery.result, interval_seconds)
            # An age, not the node's time of day: its clock may be wrong.
            at, origin = now - delivery.age_seconds, delivery.id_origin
            round = None if self._is_polling else self._round
            try:
                snapshot, via = self._fleet.identities.identify(
                    snapshot, at, via, self.thresholds, origin=origin, round=round
                )
            except DeliveryError as refusal:
                self._fleet.record_failure(via, refusal.message, now)
            else:
                self._fleet.apply(snapshot, at, via, origin=origin, address=delivery.address)


def _with_interval(snapshot: Snapshot, interval_seconds: float | None) -> Snapshot:
    """Set the polling interval where a node reports none, so that missed polls make it silent."""
    if snapshot.interval_seconds is not None or interval_seconds is None:
        return snapshot
    return replace(snapshot, interval_seconds=interval_seconds)
