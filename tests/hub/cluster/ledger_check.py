"""Compares what simulated nodes reported with what the hubs of a cluster have stored."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import text

from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.cluster.state_database import open_shared_state, quoted
from fleet_smi.hub.node_store import NodeStore
from tests.hub.cluster.simulated_nodes import ReportedNode
from tests.machines import wait_until

_TOLERANCE_SECONDS = 1.0


class LedgerCheck(NamedTuple):
    """What is wrong with the stored history; all zero where nothing is."""

    unsaved_sequences: int
    missing_sequences: int
    doubled_occupancies: int
    missing_occupancies: int
    wrong_times: int
    presence_gaps: int
    occupancies: int


def check_ledger(database: str, reported: Sequence[ReportedNode], interval: float) -> LedgerCheck:
    """Read what is stored of these nodes, and compare it.

    A process ends with the first report that does not have it.
    """
    state = open_shared_state(database)
    store = NodeStore(state.engine, NodeCheckpoint)
    history = quoted(state.schema.removesuffix("_hub"))
    try:
        saved = {node.node_id: node for node in store.load()}
        with state.engine.connect() as connection:
            occupancies = connection.execute(
                text(
                    'SELECT n.node_id, o.pid, o."start", o."end"'
                    f" FROM {history}.occupancies o JOIN {history}.gpus g ON g.key = o.gpu"
                    f" JOIN {history}.nodes n ON n.key = g.node"
                )
            ).all()
            presence = connection.execute(
                text(
                    f"SELECT n.node_id, count(*) FROM {history}.presence p"
                    f" JOIN {history}.nodes n ON n.key = p.node GROUP BY 1"
                )
            ).all()
    finally:
        store.close()
        state.engine.dispose()
    rows = defaultdict[tuple[str, int], list[tuple[float, float]]](list)
    for node_id, pid, start, end in occupancies:
        rows[node_id, pid].append((start, end))
    expected = {
        (node.node_id, pid): times for node in reported for pid, times in node.processes.items()
    }
    return LedgerCheck(
        unsaved_sequences=sum(_unsaved(saved.get(node.node_id), node) for node in reported),
        missing_sequences=sum(node.sequences.missing for node in saved.values()),
        doubled_occupancies=sum(len(found) - 1 for found in rows.values()),
        missing_occupancies=len(expected.keys() - rows.keys()),
        wrong_times=sum(
            abs(start - expected[key][0]) > _TOLERANCE_SECONDS
            or not -_TOLERANCE_SECONDS < end - expected[key][1] < 2 * interval + _TOLERANCE_SECONDS
            for key, found in rows.items()
            for start, end in found
        ),
        presence_gaps=sum(count for _, count in presence),
        occupancies=len(rows),
    )


def wait_for_ledger(
    database: str, reported: Sequence[ReportedNode], interval: float
) -> LedgerCheck:
    """Wait until the hubs have saved all that these nodes reported, and compare it."""
    wait_until(lambda: check_ledger(database, reported, interval).unsaved_sequences == 0)
    return check_ledger(database, reported, interval)


def _unsaved(checkpoint: NodeCheckpoint | None, node: ReportedNode) -> int:
    """How many of the last numbers are not stored."""
    last = None if checkpoint is None else checkpoint.sequences.last(node.run_id)
    return node.last_sequence - (-1 if last is None else last)
