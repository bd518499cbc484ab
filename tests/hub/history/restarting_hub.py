"""A hub that is restarted, and agents that resend what it did not acknowledge as durable."""

import contextlib
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fleet_smi.errors import NeedsFullReport, OutOfOrder, Unreachable
from fleet_smi.fleet.fleet import FleetChange, FleetState, NodeCheckpoint
from fleet_smi.hub.checkpointing import Checkpointer
from fleet_smi.hub.database import open_database
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import Checkpoint, RejectedRow, WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.store import open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import memory_limits
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.wire.compact import CompactReport, builds_on, merge
from fleet_smi.wire.compact_codec import READABLE_VERSIONS, decode_compact, encode_compact
from fleet_smi.wire.report import Receipt
from tests.machines import wait_until

# A resent report is received at a slightly different time: off by at most this fraction of an
# interval.
_JITTER = 0.01


class DelayedWriter:
    """Holds back the last batch, which is lost when the hub is killed, until it is `released`."""

    is_behind = is_full = is_failing = False
    released = False

    def __init__(self, writer: HistoryWriter) -> None:
        self._writer = writer
        self._last: WriteBatch | None = None
        self._last_queued = 0

    def put(self, batch: WriteBatch) -> int:
        self.flush()
        self._last = batch
        if self.released:
            self.flush()
            return self._last_queued
        return self._last_queued + 1

    def flush(self) -> None:
        if self._last is not None:
            self._last_queued = self._writer.put(self._last)
        self._last = None

    def is_written(self, number: int) -> bool:
        return number <= self._last_queued and self._writer.is_written(number)

    def take_rejected(self) -> list[RejectedRow]:
        return []

    def checkpoints(self) -> Iterable[Checkpoint]:
        return self._writer.checkpoints()

    def unfinished_rows(self, since: Mapping[str, float]) -> Iterable[SeriesRow]:
        return self._writer.unfinished_rows(since)

    def recorded_until(self) -> float:
        return self._writer.recorded_until()


class RestartingHub:
    """A succession of hubs on one history and one node store, with a simulated clock.

    Each received snapshot stops or kills it with `restart_probability`.
    """

    def __init__(
        self,
        where: str,
        folder: Path,
        keep: RetentionPolicy,
        now: float,
        restart_probability: float,
    ) -> None:
        self.now = now
        self._ends = restart_probability
        self._where = where
        self._keep = keep
        self._chance = random.Random(7)
        self._engine = open_database(folder)
        self._begin()

    def receive(self, snapshots: Sequence[Snapshot], hub: str | None = None) -> Receipt:
        """Apply a report as a hub does; raise `Unreachable` if it restarts meanwhile."""
        if hub not in (None, self.instance_id):
            raise OutOfOrder("the hub was restarted")
        for one in snapshots:
            self._record(self._fleet.apply(one, self._received_at(one.taken_at, one)))
        return self._receipt(snapshots[-1])

    def receive_compact(self, node_id: str, body: bytes) -> Receipt:
        """Apply a compact report as a hub does; raise `NeedsFullReport` without its base."""
        report = decode_compact(body)
        if report.hub != self.instance_id:
            raise OutOfOrder("the hub was restarted")
        latest = self._fleet.figure_reports.base(node_id)
        if latest is None or not builds_on(report, latest):
            raise NeedsFullReport("its base is not the latest")
        figures = merge(latest.figures, report, memory_limits(latest.base))
        at = self._received_at(figures.taken_at, latest.base)
        self._record(self._fleet.figure_reports.apply(node_id, figures, at))
        return self._receipt(latest.base)

    def _received_at(self, taken_at: float, snapshot: Snapshot) -> float:
        if self._chance.random() < self._ends:
            self.restart(killed=self._chance.random() < 0.5)
            raise Unreachable("the hub ended")
        self.now = max(self.now, taken_at)
        return taken_at + self._chance.uniform(0, _JITTER) * (snapshot.interval_seconds or 0.0)

    def _record(self, change: FleetChange | None) -> None:
        if change is not None:
            self._history.record(change)
            if change.is_late:
                self._keeping.invalidate(change.node_id)

    def _receipt(self, snapshot: Snapshot) -> Receipt:
        kept = self._keeping.durable_sequence(snapshot)
        return Receipt(hub=self.instance_id, kept=kept, versions=READABLE_VERSIONS)

    def has_node(self, snapshot: Snapshot) -> bool:
        """Whether its node has ever reported."""
        return self._fleet.node(snapshot.node_id, self.now) is not None

    def poll(self, snapshot: Snapshot) -> None:
        """Receive a snapshot over a polled source, which does not resend it."""
        with contextlib.suppress(Unreachable):
            self.receive([snapshot])

    def tick(self) -> None:
        """Run the periodic work: history, then checkpoints."""
        # History first: a node's checkpoint counts as durable only after its history is written.
        self._history.tick(self.now)
        self._wait()
        self._keeping.mark_dirty(self._fleet.take_dirty())
        self._keeping.run_slot()

    def restart(self, *, killed: bool = False) -> None:
        """Stop, or be killed, and start again from what is on disk."""
        if not killed:
            self._keeping.mark_dirty(self._fleet.take_dirty())
            self._keeping.flush()
            self._history.close()
            self._keeper.flush()
        # When killed, the batch in `_keeper` is dropped: the agents have to resend its reports.
        self._writer.close()
        self._memory.close()
        assert (self._writer.failures, self._writer.current_gap) == (0, None)
        self._store.close()
        self._begin()

    def close(self) -> None:
        """Close all files."""
        self._writer.close()
        self._memory.close()
        self._store.close()
        self._engine.dispose()

    def query_service(self) -> HistoryService:
        """Return the query service, once everything is written."""
        self._keeper.flush()
        self._keeper.released = True  # a query waits until its sums are written
        self._wait()
        return HistoryService(
            self._history, self._store, self._writer, self._keep, clock=lambda: self.now
        )

    def _begin(self) -> None:
        self.instance_id = secrets.token_hex(4)
        self._fleet = FleetState()
        self._memory = NodeStore(self._engine, NodeCheckpoint)
        self._store = open_history(self._where)
        self._writer = HistoryWriter(
            self._store, self._keep, clock=lambda: self.now, prune_interval_seconds=2.0
        )
        self._keeper = DelayedWriter(self._writer)
        self._history = HistoryRecorder(self._fleet, self._keeper)
        self._keeping = Checkpointer(self._fleet, self._memory, self._history, TimeSlots(1))
        self._keeping.restore()
        self._history.restore()

    def _wait(self) -> None:
        """Wait for the writer threads: the simulated clock runs far ahead of them."""
        wait_until(lambda: not self._writer.pending_batches())
        wait_until(lambda: self._memory.durable_batch == self._memory.last_batch)


class InProcessSession(HubSession):
    """A session with a hub in this process while `is_up`; it breaks when the hub restarts.

    With `reconnects` the next report is sent on a new connection, as after a short restart.
    """

    def __init__(self, hub: RestartingHub) -> None:
        self.is_up = True
        self.reconnects = False
        self._hub = hub
        self._instance_id = hub.instance_id
        self._decoder = msgspec.msgpack.Decoder(Snapshot)
        self._node_id = ""

    def send_report(
        self,
        snapshots: Sequence[bytes],
        node_id: str,
        name: str,
        boot_id: str | None = None,
        *,
        hub: str | None = None,
    ) -> Receipt:
        self._node_id = node_id
        self._connect()
        return self._hub.receive([self._decoder.decode(each) for each in snapshots], hub)

    @property
    def has_credential(self) -> bool:
        return True

    def send_compact(self, report: CompactReport, hub: str) -> Receipt:
        self._connect()
        return self._hub.receive_compact(self._node_id, encode_compact(report, self._hub.now, hub))

    def _connect(self) -> None:
        before, self._instance_id = self._instance_id, self._hub.instance_id
        if not self.is_up or (before != self._instance_id and not self.reconnects):
            raise Unreachable("no hub")

    def close(self) -> None:
        """There is no connection to close."""


class InProcessAgent:
    """An agent with its session and spool."""

    def __init__(self, hub: RestartingHub, folder: Path) -> None:
        self.session = InProcessSession(hub)
        self._outlet = PushOutlet(self.session, ReportBuffer(Spool(str(folder))))

    def report(self, snapshot: Snapshot) -> None:
        """Send a snapshot after all buffered ones, or buffer it."""
        with contextlib.suppress(Unreachable):
            self._outlet.deliver(snapshot)

    def close(self) -> None:
        """Spool what the hub has not stored."""
        self._outlet.close()
