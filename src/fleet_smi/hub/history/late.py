"""What came late of one node: it fills a gap in its book, and touches nothing else."""

from math import inf

from msgspec.structs import replace

from fleet_smi.hub.fleet import Change
from fleet_smi.hub.history.book import Book
from fleet_smi.hub.history.grains import part_of
from fleet_smi.hub.history.ledger import Gap, Ledger
from fleet_smi.hub.history.rows import Batch
from fleet_smi.hub.known import Node
from fleet_smi.model.thresholds import Thresholds

# A long gap is filled in parts: what is found out is held in memory until then.
_MOST_ROWS = 1000
# A report that is sent again is a moment off: at the edge of a gap it may seem to be before it.
_OFF_INTERVALS = 0.5


class Late:
    """The reports from within one gap of a node, in the order of their time.

    They were never judged, so they are judged here, on their own: by a `node` that may know
    those before them.
    """

    def __init__(self, book: Book, gap: Gap, settings: Thresholds, node: Node) -> None:
        self.book = book
        self._gap = gap
        self._settings = settings
        self._node = node
        self._book = Book(book.node_id, settings, Ledger(book.node_id, heir=book.ledger))
        self._batch = Batch()
        self._came = False
        self._first = inf
        self._reported: list[str] = []

    @classmethod
    def into(
        cls, book: Book, change: Change, settings: Thresholds, before: "Late | None" = None
    ) -> "Late | None":
        """For the gap of a book that a report lies in; `None` where there is none.

        It goes on from the part that was filled `before` it.
        """
        at = change.at
        near = at + _OFF_INTERVALS * (change.snapshot.interval_seconds or 0.0)
        gaps = [gap for gap in book.ledger.gaps if gap[0] <= near and at < gap[1]]
        goes_on = before is not None and before._book.last <= at
        node = before._node if before is not None and goes_on else Node(book.node_id)
        return cls(book, gaps[0], settings, node) if gaps else None

    def comes(self) -> bool:
        """Whether something has come since this was last asked."""
        came, self._came = self._came, False
        return came

    def fits(self, at: float) -> bool:
        """Whether a report of that moment is the next one here."""
        start, end = self._gap
        full = len(self._batch.series) >= _MOST_ROWS
        return not full and max(start, self._book.last) <= at < end

    def take(self, change: Change) -> None:
        """Take one more report."""
        self._came = True
        if change.reported != self._reported:
            self._reported = change.reported
        at = max(change.at, self._gap[0])
        turns = self._node.take(change.snapshot, at, self._settings)
        judged = replace(
            change,
            at=at,
            turns=turns,
            standings=self._node.standings,
            stirred=self._node.stirred,
            reported=self._reported,
        )
        if not self._book.gathers(judged):
            self._book.turn(judged, self._batch)
        self._first = min(self._first, at)

    def finish(self, batch: Batch, next_at: float = inf) -> None:
        """Put all that was found out into a batch; what comes next goes on from there."""
        goes_on = self._book.last <= next_at < self._gap[1]
        end = self._book.end_within(next_at if goes_on else self._gap[1], self._batch)
        batch.periods += self._batch.periods
        batch.occupancies += self._batch.occupancies
        batch.presence += self._batch.presence
        # Of the time of other rows something was known before.
        parts = [part_of(row, *self._gap) for row in self._batch.series]
        batch.series += [part for part in parts if part is not None]
        self.book.ledger.fill(self._gap, self._book.ledger, (self._first, end), batch)
