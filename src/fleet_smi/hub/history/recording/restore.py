"""Restore node recorders from checkpoints after a restart, or close what a lost hub left open."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf

from fleet_smi.errors import StateError
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import Checkpoint, WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds

logger = logging.getLogger(__name__)
RowLoader = Callable[[Mapping[str, float]], Iterable[SeriesRow]]
"""Loads the stored rows that belong to coarser rows unfinished at a time, given per node id."""


FaultCallback = Callable[[str, Exception], None]
"""Is called with the id of a node whose record could not be restored, and the error."""


def restore_recorders(
    checkpoints: Iterable[Checkpoint],
    load_rows: RowLoader,
    thresholds: Thresholds,
    on_fault: FaultCallback,
) -> list[NodeRecorder]:
    """Return one recorder per checkpoint; an unreadable checkpoint gives an empty recorder."""
    recorders = [_restore(checkpoint, thresholds, on_fault) for checkpoint in checkpoints]
    buffering = {node.node_id: node for node in recorders if node.series.buffer.since < inf}
    rows_by_node = defaultdict[str, list[SeriesRow]](list)
    since = {node_id: node.series.buffer.since for node_id, node in buffering.items()}
    for row in _load_rows(load_rows, since, on_fault):
        rows_by_node[row.node_id].append(row)
    for node_id, rows in rows_by_node.items():
        try:
            buffering[node_id].series.resume_rollup(rows)
        except Exception as error:  # noqa: BLE001  # costs this node some coarse rows, no more
            on_fault(node_id, error)
    return recorders


def end_open_intervals(checkpoints: Iterable[Checkpoint], load_rows: RowLoader) -> WriteBatch:
    """Close everything that the checkpoints hold open, with ends that are not certain."""
    batch = WriteBatch()
    for recorder in restore_recorders(checkpoints, load_rows, DEFAULT_THRESHOLDS, _log_fault):
        closed = WriteBatch()
        try:
            recorder.mark_silent(closed)
        except Exception as error:  # noqa: BLE001  # the others are to be closed
            _log_fault(recorder.node_id, error)
            continue
        batch.extend(closed)
    return batch


def _load_rows(
    load_rows: RowLoader, since: Mapping[str, float], on_fault: FaultCallback
) -> list[SeriesRow]:
    """Load the rows of all nodes; where one of them cannot be decoded, node by node."""
    try:
        return list(load_rows(since))
    except StateError:  # the database is not available
        raise
    except Exception as error:  # noqa: BLE001  # one row must not cost the rest
        if len(since) == 1:
            (node_id,) = since
            on_fault(node_id, error)
            return []
        alone = [_load_rows(load_rows, {each: at}, on_fault) for each, at in since.items()]
        return [row for rows in alone for row in rows]


def _log_fault(node_id: str, error: Exception) -> None:
    logger.warning("the open intervals of %s cannot be ended: %r", node_id, error)


def _restore(
    checkpoint: Checkpoint, thresholds: Thresholds, on_fault: FaultCallback
) -> NodeRecorder:
    recorder = NodeRecorder(checkpoint.node_id, thresholds)
    try:
        recorder.restore(checkpoint.data)
    except Exception as error:  # noqa: BLE001  # bytes that another version wrote, or a bug
        logger.warning(
            "checkpoint of %s is unreadable, its open intervals are lost: %s",
            checkpoint.node_id,
            error,
        )
        on_fault(checkpoint.node_id, error)
        # The failed restore may have set some attributes: start from a fresh one.
        return NodeRecorder(checkpoint.node_id, thresholds)
    return recorder
