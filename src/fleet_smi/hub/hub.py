"""The main loop of the hub: sources -> fleet -> history, checkpoints, stream. Read this first."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf

from fleet_smi.errors import DeliveryError
from fleet_smi.failure_log import FailureLogs
from fleet_smi.fleet.clock_watch import ClockWatch
from fleet_smi.fleet.delivery import Delivery, Source
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.fleet.node_limit import too_many_nodes
from fleet_smi.hub.change_outputs import ChangeOutputs
from fleet_smi.hub.checkpointing import CHECKPOINT_SLOTS, Checkpointer, checkpoint_slots
from fleet_smi.hub.figure_delivery import FigureDelivery
from fleet_smi.hub.history.recording.clock_steps import MAX_IGNORED_STEP_SECONDS
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.recording_gate import RecordingGate
from fleet_smi.hub.refusals import Refusal, RefusalLog
from fleet_smi.hub.report_delay import ReportDelay
from fleet_smi.hub.sites.sites_stream import Sites, open_stream
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.process_limit import limit_processes
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import with_figures
from fleet_smi.model.units import format_duration
from fleet_smi.wire.compact_codec import READABLE_VERSIONS
from fleet_smi.wire.report import Receipt

logger = logging.getLogger(__name__)
# Each slot is a message to every subscriber, which costs more than a report.
_PUBLISH_SLOTS, _TICKS = 1, 4
# Nodes published per slot: the changes of a fleet of 2,000 nodes take two rounds.
_MAX_PUBLISHED_PER_SLOT = 1000
_RESTART_SECONDS = 30.0


class Hub:
    """The fleet, what feeds it and what follows from it; lives on one event loop."""

    def __init__(
        self,
        fleet: FleetState,
        sources: Sequence[Source],
        node_store: NodeStore[NodeCheckpoint],
        history: HistoryRecorder | None = None,
        sites: Sites | None = None,
        *,
        interval_seconds: float | None = None,
        publish_seconds: float = 1.0,
        checkpoint_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
        elapsed_clock: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Create it; `elapsed_clock` passes evenly, and shows when the `clock` was set forward."""
        self.instance_id = secrets.token_hex(8)
        self.receipt_id = self.instance_id
        """In receipts. A new one makes agents resend what is not durable, as after a restart."""
        self.fleet = fleet
        self.history = history
        self.recording_gate = RecordingGate(history)
        self.sites = sites or Sites(())
        self.shown, self.stream = open_stream(fleet, sites, self.instance_id)
        self.clock, self._elapsed_clock = clock, elapsed_clock
        self._clock_watch = ClockWatch()
        self.report_delay = ReportDelay()
        self.refusals = RefusalLog(clock)
        self.ready, self.reports_received, self.delivery_failures = False, 0, 0
        self._sources = sources
        self._failures = FailureLogs(logger)
        self.checkpointer = Checkpointer(
            fleet, node_store, history, checkpoint_slots(checkpoint_seconds)
        )
        self.outputs = ChangeOutputs(fleet, self.stream, history, self.checkpointer, clock)
        self.figures = FigureDelivery(self)
        self._interval_seconds = interval_seconds
        self._publish_seconds = publish_seconds
        self._checkpoint_seconds = checkpoint_seconds

    @property
    def version(self) -> int:
        """The version of the fleet's state; an acknowledged report has already changed it."""
        return self.fleet.revision + self.sites.revision

    async def run(self) -> None:
        """Receive and publish until cancelled; at the end all unsaved state is written."""
        self._restore()
        try:
            async with asyncio.TaskGroup() as group:
                for source in self._sources:
                    group.create_task(self._run_source(source))
                group.create_task(self._publish_in_slots())
                group.create_task(self._checkpoint_in_slots())
                self.ready = True
        finally:
            self.ready = False
            # In this order: publishing also marks the last changes for the checkpoint.
            with self.fleet.faults.guard("stream"):
                self.publish()
            with self.fleet.faults.guard("checkpoint"):
                await self.checkpointer.finish()
            self.stream.close()

    def deliver(self, delivery: Delivery) -> None:
        """Apply what a source delivers: a snapshot, a failure, or the end of a failure."""
        via, now = Via(delivery.source, delivery.target), self.read_clock()
        result = delivery.result
        if isinstance(result, DeliveryError):
            self._record_failure(via, result, now)
            return
        if result is None:
            self.fleet.drop_target(via)
        else:
            # The hub's clock and the age of the report: clocks of nodes may be wrong.
            at, origin = now - delivery.age_seconds, delivery.id_origin
            node_id = result.node_id
            try:
                snapshot, own_via = self.fleet.identities.identify(
                    result, at, via, self.fleet.thresholds, origin=origin
                )
                node_id = snapshot.node_id
                self._check_room(node_id, via)
                self.reports_received += 1
                self._apply(snapshot, at, own_via, delivery)
            except DeliveryError as refusal:
                self._record_failure(via, refusal, now)
                return
            except Exception as error:  # noqa: BLE001  # one node must not stop its source
                self.fleet.faults.record("report", node_id, error)
        self.record_success(via)

    def record_success(self, via: Via) -> None:
        """Note that a target was reached."""
        if self._failures:
            self._failures.record_success(f"{via.source}:{via.target}")

    def _apply(self, snapshot: Snapshot, at: float, via: Via, delivery: Delivery) -> None:
        """Apply a snapshot that was taken at `at`, by the hub's clock."""
        is_recorded = self.is_recorded(snapshot.node_id, via)
        figures = delivery.figures
        if figures is not None and snapshot is delivery.result:
            change = self.fleet.figure_reports.apply(
                snapshot.node_id,
                figures,
                at,
                via,
                address=delivery.address,
                is_recorded=is_recorded,
            )
        else:
            if figures is not None:
                snapshot = with_figures(snapshot, figures)
            change = self.fleet.apply(
                snapshot if delivery.is_limited else limit_processes(snapshot),
                at,
                via,
                origin=delivery.id_origin,
                address=delivery.address,
                is_recorded=is_recorded,
            )
        self.outputs.pass_on(change, is_recorded=is_recorded)

    def _check_room(self, node_id: str, via: Via) -> None:
        """Raise `Refused` if this is a new node and the fleet is full."""
        if self.fleet.is_full and not self.fleet.has_node(node_id):
            self.fleet.identities.forget(node_id)
            raise too_many_nodes(self.fleet.max_nodes, via.target)

    def _record_failure(self, via: Via, error: DeliveryError, now: float) -> None:
        self.delivery_failures += 1
        self.fleet.record_failure(via, error.message, now)
        self._failures.record_failure(f"{via.source}:{via.target}", error)

    def pushed_node_id(self, snapshot: Snapshot) -> str:
        """The id of the node that a pushed snapshot was applied to, whatever id it has itself."""
        return self.fleet.identities.node_id_of(snapshot, Via("push", snapshot.node_id))

    def receipt_id_of(self, _node_id: str) -> str:
        """The id in receipts for the sender of a node's reports."""
        return self.receipt_id

    def receipt(self, snapshot: Snapshot, node_id: str | None = None) -> Receipt:
        """The receipt for the sender of this snapshot: up to which report its data is durable.

        `node_id` is that of the node that it was applied to, where that is known.
        """
        node_id = node_id or self.pushed_node_id(snapshot)
        return Receipt(
            hub=self.receipt_id_of(node_id),
            kept=self.checkpointer.durable_sequence(snapshot, node_id),
            interval_seconds=self._interval_seconds,
            recorded=not self.fleet.is_ahead_of_history(node_id),
            versions=READABLE_VERSIONS,
        )

    def refuse(self, refusal: Refusal) -> None:
        """Note that a machine was turned away: among the refused, and at its node if it has one."""
        self.refusals.record(refusal)
        node_id = refusal.node_id
        if node_id is not None and self.fleet.latest_snapshot(node_id) is not None:
            message = f"refused from {refusal.address}: {refusal.reason}; {refusal.remedy}"
            self.fleet.record_failure(Via("push", node_id), message, self.clock())

    async def remove(self, node_id: str) -> bool:
        """Remove a node, on disk too; whether there was one."""
        existed = self.fleet.remove(node_id)
        if self.history is not None:
            self.history.remove_node(node_id, self.clock())
        self.checkpointer.invalidate(node_id)
        # On disk before the admin gets a response: a crash must not bring the node back.
        self.publish()
        self.checkpoint()
        await self.checkpointer.wait_until_durable()
        return existed

    async def label(
        self, node_id: str, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Set a name and labels that override the node's own; whether there is such a node."""
        exists = self.fleet.label(node_id, name, labels)
        if self.history is not None:
            self.history.mark_renamed(node_id)
        self.publish()
        self.checkpoint()
        await self.checkpointer.wait_until_durable()
        return exists

    async def node_detail(self, node_id: str) -> NodeView | None:
        """A node with all its data; `None` when it is unknown."""
        return self.shown.node(node_id, self.clock())

    def polled_nodes(self) -> list[str]:
        """The ids of the nodes that sources poll, in the order of the settings."""
        vias = (Via(each.name, target) for each in self._sources for target in each.targets)
        return [node_id for via in vias if (node_id := self.fleet.routes.node_id(via)) is not None]

    def counts(self) -> Mapping[str, float]:
        """Counters of the hub itself, for monitoring."""
        # The keys are names of metrics, which dashboards depend on.
        return {
            "reports_total": self.reports_received,
            "delivery_failures_total": self.delivery_failures,
            "listeners": self.stream.subscriber_count,
            "memory_failures_total": self.checkpointer.failures_total,
            "faults_total": self.fleet.faults.total,
            **({} if self.history is None else self.history.counts()),
        }

    def publish(self) -> None:
        """Publish all pending changes to the subscribers of the stream now."""
        self._collect_changes()
        self.stream.publish(self.stream.pending, self.clock())

    def checkpoint(self) -> None:
        """Start saving all changed nodes now."""
        self.checkpointer.flush()

    @property
    def accepts_backlog(self) -> bool:
        """Whether reports of the past can be recorded now; if not, agents should wait."""
        return self.history is None or not self.history.is_behind

    def is_recorded(self, node_id: str, via: Via) -> bool:
        """Whether the next report of a node can be recorded; else it has to be sent again."""
        return self.is_owned(node_id, via) and self.recording_gate.is_open()

    def is_owned(self, _node_id: str, _via: Via) -> bool:
        """Whether the history of a node is this hub's to record."""
        return True

    def _restore(self) -> None:
        self.checkpointer.restore()
        if self.history is not None:
            with self.fleet.faults.guard("history"):
                self.history.restore(self.clock())
        # The clock may have been set back while no hub was running.
        latest = [self.fleet.latest_report_at]
        latest += [] if self.history is None else [self.history.latest_report_at]
        if (latest_at := max(latest)) > -inf:
            self._clock_watch.begin_at(latest_at)
        targets = [Via(each.name, target) for each in self._sources for target in each.targets]
        for via in targets:
            self.fleet.add_target(via)
        self.fleet.identities.set_routes(
            targets, [source.name for source in self._sources if not source.targets]
        )

    async def _run_source(self, source: Source) -> None:
        while True:
            try:
                await source.run(self.deliver)
            except Exception as error:  # a bug in one source must not silence the others
                logger.exception("source=%s has a bug", source.name)
                for target in source.targets:
                    self.fleet.record_failure(
                        Via(source.name, target), f"bug: {error!r}", self.clock()
                    )
            await asyncio.sleep(_RESTART_SECONDS)  # also after a source that just ended

    def read_clock(self) -> float:
        """The time; where the clock was set, fleet and history continue from there."""
        now = self.clock()
        step = self._clock_watch.step_at(now, self._elapsed_clock())
        if step:
            self.fleet.shift_times(step)
            if abs(step) > MAX_IGNORED_STEP_SECONDS:
                logger.warning(
                    "the clock of the hub was set %s by %s: the history continues from there",
                    "back" if step < 0 else "forward",
                    format_duration(abs(step)),
                )
            if self.history is not None:
                with self.fleet.faults.guard("history"):
                    self.history.step_clock(now, step)
        return now

    def _collect_changes(self) -> None:
        now = self.read_clock()
        self.fleet.tick(now, self.report_delay.seconds)
        if self.recording_gate.reopen():
            self.receipt_id = secrets.token_hex(8)
        if self.history is not None:
            with self.fleet.faults.guard("history"):
                self.history.tick(now)
        if changed := self.fleet.take_dirty():
            self.stream.enqueue(changed, now)
            self.checkpointer.mark_dirty(changed)

    async def _publish_in_slots(self) -> None:
        slots = TimeSlots(_PUBLISH_SLOTS, _MAX_PUBLISHED_PER_SLOT)
        tick_seconds, last, number = self._publish_seconds / _TICKS, time.monotonic(), 0
        async for _ in ticks(tick_seconds):
            # As late as this task is, reports are too: both wait for the same event loop.
            last, previous, number = time.monotonic(), last, number + 1
            self.report_delay.record(last - previous - tick_seconds)
            with self.fleet.faults.guard("stream"):
                self._collect_changes()
                if number % (_TICKS // _PUBLISH_SLOTS) == 0:
                    self.stream.publish(self.stream.due(slots), self.clock())

    async def _checkpoint_in_slots(self) -> None:
        async for _ in ticks(self._checkpoint_seconds / CHECKPOINT_SLOTS):
            with self.fleet.faults.guard("checkpoint"):
                self.checkpointer.run_slot()
