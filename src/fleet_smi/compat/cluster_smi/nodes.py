"""Nodes of cluster-smi: which is which, how often each is heard, and how old its news is.

Pure: the caller brings the time, by the hub's own clock.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from fleet_smi.compat.cluster_smi.codec import (
    MAX_NODES,
    NodeMessage,
    node_id_from_name,
    to_snapshot,
)
from fleet_smi.errors import Refused
from fleet_smi.model.snapshot import Snapshot

# A node does not tell its pace. By 60 s it is silent after 3 minutes, as for cluster-smi itself.
_PACES = (3.0, 10.0)
_UNKNOWN_PACE = 60.0
_LATE = 1.5
_STILL_THERE_SECONDS = 180.0
_PATIENCE_SECONDS = 10.0


class _Pushing(Struct, gc=False):
    node_id: str
    heard_at: float
    count: int = 0


class PushedNodes:
    """The nodes that push by themselves. Two of one name are told apart by their addresses."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Pushing] = {}
        self._owners: dict[str, str] = {}

    def snapshot(self, node: NodeMessage, address: str, now: float) -> Snapshot:
        """What a node tells, as a snapshot of that very node; raise `Refused`."""
        known = self._known.get((node.name, address))
        if known is None:
            known, pace = self._met(node.name, address, now), _UNKNOWN_PACE
        else:
            pace = _pace(now - known.heard_at)
            known.heard_at = now
        known.count += 1
        return to_snapshot(
            node, now, interval_seconds=pace, sequence=known.count, node_id=known.node_id
        )

    def _met(self, name: str, address: str, now: float) -> _Pushing:
        if len(self._known) >= MAX_NODES:
            raise Refused(f"more than {MAX_NODES} nodes of cluster-smi push here")
        owner = (name, self._owners.setdefault(name, address))
        former = self._known.get(owner)
        node_id = node_id_from_name(name)
        if former is not None and former.node_id == node_id:
            if now - former.heard_at < _STILL_THERE_SECONDS:
                node_id = node_id_from_name(name, address)
            else:  # it has moved to another address
                del self._known[owner]
                self._owners[name] = address
        self._known[name, address] = met = _Pushing(node_id, now)
        return met


class _Stamped(Struct, gc=False):
    stamp: float | None
    since: float
    count: int = 0


class RouterNodes:
    """The nodes of one router, which tells old news for ever: only a new stamp is news.

    A node whose stamp has not yet been seen to change may be dead: it is told of once there
    was time for that, as old as it is known to be.
    """

    def __init__(self, grace_seconds: float = _PATIENCE_SECONDS) -> None:
        self._patience_seconds = grace_seconds
        self._known: dict[str, _Stamped] = {}

    def new_snapshots(
        self, nodes: Iterable[NodeMessage], now: float
    ) -> Iterator[tuple[Snapshot, float]]:
        """What is new in an answer, and how many seconds old it is."""
        for told in nodes:
            known = self._known.get(told.name)
            if known is None:
                known = self._known[told.name] = _Stamped(told.timestamp, now)
            waited = now - known.since
            if told.timestamp is None or told.timestamp != known.stamp:
                known.stamp, known.since = told.timestamp, now
                pace, age = _pace(waited), 0.0
            elif not known.count and waited >= self._patience_seconds:
                pace, age = _PACES[0], _PATIENCE_SECONDS
            else:
                continue
            known.count += 1
            yield to_snapshot(told, now, interval_seconds=pace, sequence=known.count), age


def _pace(gap_seconds: float) -> float:
    return next((pace for pace in _PACES if gap_seconds <= _LATE * pace), _UNKNOWN_PACE)
