"""State of cluster-smi nodes: identity, reporting interval and age of the latest message.

Pure: the caller passes the time, by the hub's own clock.
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

# A node does not send its interval. With 60 s it is silent after 3 minutes, as in cluster-smi.
_INTERVALS = (3.0, 10.0)
_DEFAULT_INTERVAL = 60.0
_TOLERANCE = 1.5  # a message may be late by half an interval
_ALIVE_SECONDS = 180.0
# More than three intervals of 3 s: a node first reported with this age is silent from the start.
_GRACE_SECONDS = 10.0


class _PushingNode(Struct, gc=False):
    node_id: str
    received_at: float
    count: int = 0


class PushedNodes:
    """Nodes that push to the hub; those of one name are separated by their addresses."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _PushingNode] = {}
        # The address whose node has the plain id of its name, without a suffix.
        self._owners: dict[str, str] = {}

    def snapshot(self, node: NodeMessage, address: str, now: float) -> Snapshot:
        """Convert a message to a snapshot of its node; raise `Refused` beyond the node limit."""
        known = self._known.get((node.name, address))
        if known is None:
            known, interval = self._add(node.name, address, now), _DEFAULT_INTERVAL
        else:
            interval = _interval(now - known.received_at)
            known.received_at = now
        known.count += 1
        return to_snapshot(
            node, now, interval_seconds=interval, sequence=known.count, node_id=known.node_id
        )

    def _add(self, name: str, address: str, now: float) -> _PushingNode:
        if len(self._known) >= MAX_NODES:
            raise Refused(f"more than {MAX_NODES} nodes of cluster-smi push here")
        owner = (name, self._owners.setdefault(name, address))
        former = self._known.get(owner)
        node_id = node_id_from_name(name)
        if former is not None and former.node_id == node_id:
            # An owner that still pushes is another machine; one that stopped has moved here.
            if now - former.received_at < _ALIVE_SECONDS:
                node_id = node_id_from_name(name, address)
            else:
                del self._known[owner]
                self._owners[name] = address
        self._known[name, address] = added = _PushingNode(node_id, now)
        return added


class _RoutedNode(Struct, gc=False):
    stamp: float | None
    since: float
    count: int = 0


class RouterNodes:
    """Nodes of one router, which repeats the last message of a dead node forever.

    Only a changed stamp is new data. A node whose stamp has not changed since the first response
    may be dead: it is reported once after the grace period, with the age that is certain.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._known: dict[str, _RoutedNode] = {}

    def new_snapshots(
        self, nodes: Iterable[NodeMessage], now: float
    ) -> Iterator[tuple[Snapshot, float]]:
        """Yield a snapshot of each node that has new data, and its age in seconds."""
        for message in nodes:
            known = self._known.get(message.name)
            if known is None:
                known = self._known[message.name] = _RoutedNode(message.timestamp, now)
            waited = now - known.since
            # Different, not later: the clock of a node may be set back. Without a time (2018)
            # the age is unknown, and every message counts as new.
            if message.timestamp is None or message.timestamp != known.stamp:
                known.stamp, known.since = message.timestamp, now
                interval, age = _interval(waited), 0.0
            elif not known.count and waited >= self._grace_seconds:
                interval, age = _INTERVALS[0], _GRACE_SECONDS
            else:
                continue
            known.count += 1
            yield to_snapshot(message, now, interval_seconds=interval, sequence=known.count), age


def _interval(gap_seconds: float) -> float:
    """Guess the interval of a node from the time since its last message."""
    fitting = (interval for interval in _INTERVALS if gap_seconds <= _TOLERANCE * interval)
    return next(fitting, _DEFAULT_INTERVAL)
