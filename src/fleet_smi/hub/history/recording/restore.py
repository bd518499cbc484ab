"""Restore node recorders from checkpoints after a restart, or close what a lost hub left open."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import Checkpoint, WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds

logger = logging.getLogger(__name__)
RowLoader = Callable[[Mapping[str, float]], Iterable[SeriesRow]]
"""Loads the stored rows that belong to coarser rows unfinished at a time, given per node id."""


def restore_recorders(
    checkpoints: Iterable[Checkpoint], load_rows: RowLoader, thresholds: Thresholds
) -> list[NodeRecorder]:
    """Return one recorder per checkpoint; an unreadable checkpoint gives an empty recorder."""
    recorders = [_restore(checkpoint, thresholds) for checkpoint in checkpoints]
    buffering = {node.node_id: node for node in recorders if node.series.buffer.since < inf}
    rows_by_node = defaultdict[str, list[SeriesRow]](list)
    for row in load_rows(
        {node_id: node.series.buffer.since for node_id, node in buffering.items()}
    ):
        rows_by_node[row.node_id].append(row)
    for node_id, rows in rows_by_node.items():
        buffering[node_id].series.resume_rollup(rows)
    return recorders


def end_open_intervals(checkpoints: Iterable[Checkpoint], load_rows: RowLoader) -> WriteBatch:
    """Close everything that the checkpoints hold open, with ends that are not certain."""
    batch = WriteBatch()
    for recorder in restore_recorders(checkpoints, load_rows, DEFAULT_THRESHOLDS):
        recorder.mark_silent(batch)
    return batch


def _restore(checkpoint: Checkpoint, thresholds: Thresholds) -> NodeRecorder:
    recorder = NodeRecorder(checkpoint.node_id, thresholds)
    try:
        recorder.restore(checkpoint.data)
    except ValueError as error:
        logger.warning(
            "checkpoint of %s is unreadable, its open intervals are lost: %s",
            checkpoint.node_id,
            error,
        )
        # The failed restore may have set some attributes: start from a fresh one.
        return NodeRecorder(checkpoint.node_id, thresholds)
    return recorder
