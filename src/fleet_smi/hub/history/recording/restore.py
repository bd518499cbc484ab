"""What was open when a hub ended: for the one after it, and where none could go on from it."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import Checkpoint, SeriesRow, WriteBatch
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds

logger = logging.getLogger(__name__)
RowLoader = Callable[[Mapping[str, float]], Iterable[SeriesRow]]
"""Of each node those that are in longer rows which were not done at a moment."""


def restore_recorders(
    checkpoints: Iterable[Checkpoint], load_rows: RowLoader, thresholds: Thresholds
) -> list[NodeRecorder]:
    """A book for each node; one that cannot be read begins anew."""
    books = [_restored(checkpoint, thresholds) for checkpoint in checkpoints]
    gathering = {one.node_id: one for one in books if one.buffered_since < inf}
    done = defaultdict[str, list[SeriesRow]](list)
    for row in load_rows({node_id: one.buffered_since for node_id, one in gathering.items()}):
        done[row.node_id].append(row)
    for node_id, rows in done.items():
        gathering[node_id].resume_rollup(rows)
    return books


def end_open_intervals(checkpoints: Iterable[Checkpoint], load_rows: RowLoader) -> WriteBatch:
    """All of it as it ended, or later: nobody heard the nodes since."""
    batch = WriteBatch()
    for book in restore_recorders(checkpoints, load_rows, DEFAULT_THRESHOLDS):
        book.mark_silent(batch)
    return batch


def _restored(checkpoint: Checkpoint, settings: Thresholds) -> NodeRecorder:
    book = NodeRecorder(checkpoint.node_id, settings)
    try:
        book.restore(checkpoint.data)
    except ValueError as error:
        logger.warning("history of %s begins anew: %s", checkpoint.node_id, error)
        return NodeRecorder(checkpoint.node_id, settings)
    return book
