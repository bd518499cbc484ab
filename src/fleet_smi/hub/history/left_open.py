"""What was open when a hub ended: for the one after it, and where none could go on from it."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from fleet_smi.hub.history.book import Book
from fleet_smi.hub.history.rows import Batch, Checkpoint, SeriesRow
from fleet_smi.model.thresholds import DEFAULT_THRESHOLDS, Thresholds

logger = logging.getLogger(__name__)
RowsOf = Callable[[Mapping[str, float]], Iterable[SeriesRow]]
"""Of each node those that are in longer rows which were not done at a moment."""


def reopened(
    checkpoints: Iterable[Checkpoint], rows_of: RowsOf, settings: Thresholds
) -> list[Book]:
    """A book for each node; one that cannot be read begins anew."""
    books = [_restored(checkpoint, settings) for checkpoint in checkpoints]
    gathering = {one.node_id: one for one in books if one.gathered_since < inf}
    done = defaultdict[str, list[SeriesRow]](list)
    for row in rows_of({node_id: one.gathered_since for node_id, one in gathering.items()}):
        done[row.node_id].append(row)
    for node_id, rows in done.items():
        gathering[node_id].go_on_from(rows)
    return books


def ended(checkpoints: Iterable[Checkpoint], rows_of: RowsOf) -> Batch:
    """All of it as it ended, or later: nobody heard the nodes since."""
    batch = Batch()
    for book in reopened(checkpoints, rows_of, DEFAULT_THRESHOLDS):
        book.fall_silent(batch)
    return batch


def _restored(checkpoint: Checkpoint, settings: Thresholds) -> Book:
    book = Book(checkpoint.node_id, settings)
    try:
        book.restore(checkpoint.data)
    except ValueError as error:
        logger.warning("history of %s begins anew: %s", checkpoint.node_id, error)
        return Book(checkpoint.node_id, settings)
    return book
