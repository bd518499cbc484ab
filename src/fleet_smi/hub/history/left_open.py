"""What was open when a hub ended, for one that could not go on from it."""

from collections.abc import Iterable

from fleet_smi.hub.history.book import Book
from fleet_smi.hub.history.rows import Batch, Checkpoint
from fleet_smi.model.thresholds import DEFAULT_THRESHOLDS


def ended(checkpoints: Iterable[Checkpoint]) -> Batch:
    """All of it as it ended, or later: nobody heard the nodes since."""
    batch = Batch()
    for checkpoint in checkpoints:
        book = Book(checkpoint.node_id, DEFAULT_THRESHOLDS)
        try:
            book.restore(checkpoint.data)
        except ValueError:
            continue  # of another version, or no checkpoint at all
        book.fall_silent(batch)
    return batch
