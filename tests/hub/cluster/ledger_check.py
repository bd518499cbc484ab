"""Compares what simulated nodes reported with what the hubs of a cluster have stored."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from sqlalchemy import Connection, text

from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.cluster.state_database import open_shared_state, quoted
from fleet_smi.hub.history.recording.checkpoint_codec import decode_state
from fleet_smi.hub.node_store import NodeStore
from tests.hub.cluster.simulated_nodes import ReportedNode

_TOLERANCE_SECONDS = 1.0
"""Of presences. Processes may be off by half an interval: a report counts when it is received."""
Interval = tuple[float, float]


class LedgerCheck(NamedTuple):
    """What is wrong with the stored history; all zero where nothing is."""

    unsaved_sequences: int
    missing_sequences: int
    doubled_occupancies: int
    missing_occupancies: int
    wrong_times: int
    unrecorded_seconds: float
    """Of all nodes: time in which they reported, and of which the history says that they did not.

    A node that is silent for a while has its presence stored as ended. Where its reports come late,
    its presence goes on, or another one fills the gap.
    """
    occupancies: int
    presences: int


class _Stored(NamedTuple):
    nodes: dict[str, NodeCheckpoint]
    occupancies: Mapping[tuple[str, int], list[Interval]]
    presences: Mapping[str, dict[float, float]]


def check_ledger(database: str, reported: Sequence[ReportedNode], interval: float) -> LedgerCheck:
    """Read what is stored of these nodes, and compare it.

    A process ends with the first report that does not have it.
    """
    stored = _read(database)
    expected = {
        (node.node_id, pid): times for node in reported for pid, times in node.processes.items()
    }
    rows = stored.occupancies
    return LedgerCheck(
        unsaved_sequences=sum(_unsaved(stored.nodes.get(node.node_id), node) for node in reported),
        missing_sequences=sum(node.sequences.missing for node in stored.nodes.values()),
        doubled_occupancies=sum(len(found) - 1 for found in rows.values()),
        missing_occupancies=len(expected.keys() - rows.keys()),
        wrong_times=sum(
            not _is_right(each, expected[key], interval)
            for key, found in rows.items()
            for each in found
        ),
        unrecorded_seconds=sum(
            _unrecorded(node, stored.presences.get(node.node_id, {}).items()) for node in reported
        ),
        occupancies=len(rows),
        presences=sum(map(len, stored.presences.values())),
    )


def describe_faults(
    database: str, reported: Sequence[ReportedNode], interval: float, most: int = 20
) -> list[str]:
    """The first occupancies and presences that are wrong; times are since the first report."""
    stored, lines = _read(database), list[str]()
    begun = min([node.begun for node in reported], default=0.0)

    def relative(times: Iterable[float]) -> list[float]:
        return [round(at - begun, 1) for at in times]

    for node in reported:
        presences = stored.presences.get(node.node_id, {})
        if _unrecorded(node, presences.items()):
            shown = [relative(each) for each in sorted(presences.items())]
            lines.append(f"{node.node_id}: present {shown}")
        for pid, times in node.processes.items():
            found = stored.occupancies.get((node.node_id, pid), [])
            if len(found) != 1 or not _is_right(found[0], times, interval):
                shown = [relative(each) for each in found]
                lines.append(f"{node.node_id}: {pid} ran {relative(times)}, stored {shown}")
    return lines[:most]


def _is_right(stored: Interval, ran: Interval, interval: float) -> bool:
    late, tolerance = stored[1] - ran[1], max(_TOLERANCE_SECONDS, interval / 2)
    is_end_right = -tolerance < late < 2 * interval + tolerance
    return is_end_right and abs(stored[0] - ran[0]) < tolerance


def _read(database: str) -> _Stored:
    state = open_shared_state(database)
    store = NodeStore(state.engine, NodeCheckpoint)
    history = quoted(state.schema.removesuffix("_hub"))
    try:
        nodes = {node.node_id: node for node in store.load()}
        with state.engine.connect() as connection:
            return _Stored(
                nodes, _read_occupancies(connection, history), _read_presences(connection, history)
            )
    finally:
        store.close()
        state.engine.dispose()


def _read_occupancies(
    connection: Connection, history: str
) -> dict[tuple[str, int], list[Interval]]:
    rows = connection.execute(
        text(
            'SELECT n.node_id, o.pid, o."start", o."end"'
            f" FROM {history}.occupancies o JOIN {history}.gpus g ON g.key = o.gpu"
            f" JOIN {history}.nodes n ON n.key = g.node"
        )
    )
    found = defaultdict[tuple[str, int], list[Interval]](list)
    for node_id, pid, start, end in rows:
        found[node_id, pid].append((start, end))
    return found


def _read_presences(connection: Connection, history: str) -> dict[str, dict[float, float]]:
    """The presences of each node, by start; an open one replaces its stored row."""
    rows = connection.execute(
        text(
            f'SELECT n.node_id, p."start", p."end" FROM {history}.presence p'
            f" JOIN {history}.nodes n ON n.key = p.node"
        )
    )
    found = defaultdict[str, dict[float, float]](dict)
    for node_id, start, end in rows:
        found[node_id][start] = end
    checkpoints = connection.execute(
        text(
            f"SELECT n.node_id, c.data FROM {history}.checkpoints c"
            f" JOIN {history}.nodes n ON n.key = c.node"
        )
    )
    for node_id, data in checkpoints:
        since = decode_state(data).ledger.since
        if since is not None:
            found[node_id][since] = inf
    return found


def _unrecorded(node: ReportedNode, presences: Iterable[Interval]) -> float:
    """The time in which a node reported, less all that its presences cover."""
    missing, covered_until = 0.0, node.begun
    for start, end in sorted(presences):
        if start - covered_until > _TOLERANCE_SECONDS:
            missing += start - covered_until
        covered_until = max(covered_until, end)
    return missing + max(0.0, node.ended - covered_until)


def _unsaved(checkpoint: NodeCheckpoint | None, node: ReportedNode) -> int:
    """How many of the last numbers are not stored."""
    last = None if checkpoint is None else checkpoint.sequences.last(node.run_id)
    return max(0, node.last_sequence - (-1 if last is None else last))
