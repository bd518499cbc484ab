"""The face of this room: the hub's changes go in, batches to be written come out.

Lives on the event loop and never waits.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Protocol

from msgspec.structs import replace

from fleet_smi.errors import StateError
from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.hub.history.recording.late_reports import LateReports
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder, roll_up_nodes
from fleet_smi.hub.history.recording.restore import restore_recorders
from fleet_smi.hub.history.recording.rows import Checkpoint, NodeRow, SeriesRow, WriteBatch
from fleet_smi.hub.history.series.buffer import device_uuids
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import GpuOfNode, RibbonPoint
from fleet_smi.model.snapshot import Snapshot

logger = logging.getLogger(__name__)

_MINUTE = 60
_LOOK_SECONDS = _HAND_ON_SECONDS = 2.0
_FEW, _TURNS = 100, 4
# Of more reports a second the figures of some are left out: it would take twice as long.
_SAMPLES_A_SECOND = 200
_MOST_SPACING_SECONDS = 10.0


class HistoryStorage(Protocol):
    """Who writes down what happened."""

    def put(self, batch: WriteBatch) -> int:
        """Have a batch written; returns its number, at once."""

    def is_done(self, number: int) -> bool:
        """Whether a batch is written, or nobody can tell when it will be."""

    def checkpoints(self) -> Iterable[Checkpoint]:
        """The latest of each node; raise `StateError` when they cannot be read."""

    def unfinished_rows(self, since: Mapping[str, float]) -> Iterable[SeriesRow]:
        """Those of these nodes that are in longer rows which were not done at a moment, the oldest
        first; raise `StateError`."""


class HistoryRecorder:
    """What happens to every node of a fleet, from one moment to the next."""

    def __init__(self, fleet: FleetState, storage: HistoryStorage) -> None:
        self._fleet = fleet
        self._keeper = storage
        self._books: dict[str, NodeRecorder] = {}
        self._late: dict[str, LateReports] = {}
        self._told: dict[str, tuple[NodeRow, tuple[str, ...]]] = {}
        self._states = Counter[State]()
        self._batch = WriteBatch()
        self.unsaved: set[str] = set()
        """The nodes of which all that was heard is handed on next."""
        self._minute = self._now = -inf
        self._look_due = self._hand_on_due = -inf
        self._handed_on = self._too_late = self._taken = 0
        self._spacing, self._ticked = 0.0, inf
        self._others: list[NodeRecorder] = []

    def restore(self) -> None:
        """Go on from where the last hub left off, before anything is heard."""
        keeper, settings = self._keeper, self._fleet.thresholds
        try:
            books = restore_recorders(keeper.checkpoints(), keeper.unfinished_rows, settings)
        except StateError as error:
            logger.warning("history begins anew: %s", error)
            return
        self._books |= {book.node_id: book for book in books}

    def record(self, change: FleetChange) -> None:
        """Take in what was believed, or what came late and fills a gap."""
        node_id = change.snapshot.node_id
        book = self._books.get(node_id) or self._begun(node_id)
        if change.is_late:
            self._too_late += not self._take_late(book, change)
        elif not book.try_buffer(change, self._spacing):
            self._turn(book, change)
        self._taken += 1

    def tick(self, now: float) -> None:
        """Let time pass: nodes fall silent, minutes end, and what is done is handed on."""
        self._now = now
        if not now < self._look_due <= now + _LOOK_SECONDS:
            self._look_due = now + _LOOK_SECONDS
            self._look_around()
        if not now < self._hand_on_due <= now + _HAND_ON_SECONDS:
            self.flush()

    def remove_node(self, node_id: str, now: float) -> None:
        """A node was removed."""
        book = self._books.pop(node_id, None)
        if book is None:
            return
        if node_id in self._late:
            self._end_late(self._late[node_id])
        before = book.states
        book.end_by(now, self._batch)
        self._recount(before, ())
        self._told.pop(node_id, None)
        self.unsaved.discard(node_id)
        self._batch.removed_nodes.append(node_id)

    def mark_renamed(self, node_id: str) -> None:
        """A node is called by another name, or has other labels: its next report tells of it."""
        if node_id in self._books:
            self._books[node_id].force_full_diff()

    def has_late_reports(self, node_id: str) -> bool:
        """Whether something comes late of a node: to save it now would part that in two."""
        return node_id in self._late

    def schedule_save(self, node_ids: Iterable[str]) -> int:
        """Let all that was heard of these nodes be handed on soon; the number of the batch."""
        for node_id in node_ids:
            if node_id in self._late:
                self._end_late(self._late[node_id])
            self.unsaved.add(node_id)
        return self._handed_on + 1

    def is_saved(self, number: int) -> bool:
        """Whether the batch of that number outlives the hub, or there is no use in waiting."""
        if number > self._handed_on:
            return not self.unsaved  # else there was nothing to be handed on
        return self._keeper.is_done(number)

    def flush(self) -> None:
        """Have all written now that is done or was to be saved."""
        self._hand_on_due = self._now + _HAND_ON_SECONDS
        batch, self._batch = self._batch, WriteBatch()
        books = [self._books[node_id] for node_id in self.unsaved if node_id in self._books]
        batch.checkpoints = [book.checkpoint() for book in books if book.last_report_at > -inf]
        self.unsaved.clear()
        if any(getattr(batch, rows) for rows in batch.__struct_fields__):
            self._handed_on = self._keeper.put(batch)

    def close(self) -> None:
        """Hand on all that there is: whoever comes next goes on from it."""
        self.schedule_save(self._books)
        self.flush()

    def open_batch(self, node_ids: Iterable[str] | None = None) -> WriteBatch:
        """All that goes on now; its `usage` are the whole sums of the hour so far."""
        batch = WriteBatch()
        for node_id in self._books if node_ids is None else node_ids:
            if node_id in self._books:
                self._books[node_id].add_usage(self._batch)
                self._books[node_id].collect_open(batch)
        return batch

    def partial_rows(self, node_ids: Iterable[str]) -> list[SeriesRow]:
        """The rows of figures of these nodes that are not done yet."""
        books = [self._books[node_id] for node_id in node_ids if node_id in self._books]
        return [row for book in books for row in book.partial_rows()]

    def rows_at(self, node_ids: Iterable[str], at: float) -> list[SeriesRow]:
        """The figures of these nodes at a moment, where no rows are done of it yet."""
        books = [self._books[node_id] for node_id in node_ids if node_id in self._books]
        return [row for book in books if (row := book.row_at(at)) is not None]

    def pending_batch(self) -> WriteBatch:
        """What has ended and is not handed on yet."""
        return self._batch

    def counts(self) -> Mapping[str, float]:
        """How it fares, for whoever watches the hub."""
        return {
            "history_batches_total": self._handed_on,
            "history_reports_too_late_total": self._too_late,
            "history_spacing_seconds": self._spacing,
        }

    def _look_around(self) -> None:
        now = self._now
        self._space(now)
        some = self._next_books()
        for book in some:
            if book.is_timed_out(now):
                self._fall_silent(book)
        self._roll_up([book for book in some if book.is_rollup_due(now)])
        for late in list(self._late.values()):
            if not late.pop_received():
                self._end_late(late)
        self._note_the_minute(now)

    def _begun(self, node_id: str) -> NodeRecorder:
        book = self._books[node_id] = NodeRecorder(node_id, self._fleet.thresholds)
        return book

    def _turn(self, book: NodeRecorder, change: FleetChange) -> None:
        before, ended = book.states, self._ended()
        if book.record(change, self._batch, self._spacing):
            self._recount(before, book.states)
            self._tell(change.snapshot)
            if self._ended() > ended:
                self.unsaved.add(book.node_id)
        else:  # it may still fill a gap: a hub that was killed had heard what came after it
            self._take_late(book, change)

    def _ended(self) -> int:
        """How many rows have a beginning that a book decides.

        They are written with the book itself: an older one would tell of them again, a moment
        earlier or later. All others are found by the clock, and replace themselves.
        """
        batch = self._batch
        return len(batch.periods) + len(batch.occupancies) + len(batch.presence)

    def _fall_silent(self, book: NodeRecorder) -> None:
        before = book.states
        book.mark_silent(self._batch)
        self._recount(before, book.states)
        self.unsaved.add(book.node_id)

    def _recount(self, before: tuple[State, ...], after: tuple[State, ...]) -> None:
        if after != before:
            self._states.subtract(before)
            self._states.update(after)

    def _tell(self, snapshot: Snapshot) -> None:
        """Say what a node and its GPUs are, where that is not what was said before."""
        node_id = snapshot.node_id
        name, labels = self._fleet.name_and_labels(node_id)
        row, uuids = NodeRow(node_id=node_id, name=name, labels=labels), device_uuids(snapshot)
        if self._told.get(node_id) != (row, uuids):
            self._told[node_id] = row, uuids
            self._batch.nodes.append(row)
            self._batch.gpus += _gpus(snapshot, name)

    def _take_late(self, book: NodeRecorder, change: FleetChange) -> bool:
        """Whether there is a gap that it belongs to."""
        before = late = self._late.get(book.node_id)
        if before is not None and not before.accepts(change.at):
            self._end_late(before, change.at)
            late = None
        if late is None:
            late = LateReports.for_change(book, change, self._fleet.thresholds, before)
        if late is None:
            return False
        self._late[book.node_id] = late
        late.record(change)
        return True

    def _end_late(self, late: LateReports, next_at: float = inf) -> None:
        del self._late[late.recorder.node_id]
        late.finish(self._batch, next_at)
        self.unsaved.add(late.recorder.node_id)

    def _roll_up(self, books: Sequence[NodeRecorder]) -> None:
        roll_up_nodes(books, self._batch, self._spacing)
        for book in books:
            latest = self._fleet.latest_snapshot(book.node_id)
            if latest is not None:
                self._tell(latest)
                book.force_full_diff(latest)

    def _next_books(self) -> list[NodeRecorder]:
        """Those whose turn it is: a few nodes have it together, and a part of many."""
        if not self._others:
            self._others = list(self._books.values())
        count = max(_FEW, len(self._books) // _TURNS)
        some, self._others = self._others[:count], self._others[count:]
        return some

    def _space(self, now: float) -> None:
        """Let samples be so far apart that there are not too many, however many reports come."""
        passed, a_second = now - self._ticked, 0.0
        if passed > 0.0:
            a_second = self._taken / passed
        self._taken, self._ticked = 0, now
        spacing = a_second / _SAMPLES_A_SECOND
        self._spacing = min(spacing, _MOST_SPACING_SECONDS) if spacing > 1.0 else 0.0

    def _note_the_minute(self, now: float) -> None:
        minute = now // _MINUTE * _MINUTE
        if minute == self._minute:
            return
        self._minute = minute
        moment = RibbonPoint(
            at=minute,
            nodes=len(self._books),
            nodes_reporting=sum([not book.silent for book in self._books.values()]),
            gpus={state: float(self._states[state]) for state in STATES},
        )
        self._batch.moments.append(moment)


def _gpus(snapshot: Snapshot, node: str) -> Iterator[GpuOfNode]:
    """The GPUs of a node, each with its instances."""
    for gpu in snapshot.gpus:
        whole = GpuOfNode(
            uuid=gpu.uuid,
            node_id=snapshot.node_id,
            node=node,
            index=gpu.index,
            vendor=gpu.vendor,
            model=gpu.name,
            memory_total_bytes=gpu.memory_total_bytes,
        )
        yield whole
        for part in gpu.instances:
            yield replace(
                whole,
                uuid=part.uuid,
                model=part.profile,
                memory_total_bytes=part.memory_total_bytes,
                parent=gpu.uuid,
            )
