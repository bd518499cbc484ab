"""State of cluster-smi nodes: identity, reporting interval and age of the latest message.

Pure: the caller passes the time, by the hub's own clock.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.compat.cluster_smi.codec import NodeMessage, to_snapshot
from fleet_smi.compat.cluster_smi.shared_names import MessageOrigin, NamedMachines
from fleet_smi.errors import Refused
from fleet_smi.model.snapshot import CollectorRun, Snapshot

# A node does not send its interval. With 60 s it is silent after 3 minutes, as in cluster-smi.
_INTERVALS = (3.0, 10.0)
_DEFAULT_INTERVAL = 60.0
_TOLERANCE = 1.5  # a message may be late by half an interval
# More than three intervals of 3 s: a node first reported with this age is silent from the start.
_GRACE_SECONDS = 10.0


class PushedNodes:
    """Nodes that push to the hub; those of one name stay separate."""

    def __init__(self) -> None:
        self._machines = NamedMachines()

    def snapshot(
        self, node: NodeMessage, address: str, now: float, connection: int = 0
    ) -> Snapshot:
        """Convert a message to a snapshot of its node; raise `Refused` beyond the node limit."""
        machine = self._machines.find(node, MessageOrigin(address, connection), now)
        interval = _interval(now - machine.received_at) if machine.count else _DEFAULT_INTERVAL
        machine.received_at = now
        machine.count += 1
        snapshot = to_snapshot(
            node, now, interval_seconds=interval, sequence=machine.count, node_id=machine.node_id
        )
        return with_namesake(snapshot, self._machines.namesake(node.name, machine, now))


def with_namesake(snapshot: Snapshot, address: str | None) -> Snapshot:
    """Add a warning where another machine of the same name sends messages, too."""
    if address is None:
        return snapshot
    detail = (
        f"another machine at {address} is named {snapshot.name}, too: cluster-smi tells machines "
        "apart by name only, so give one of them another host name"
    )
    run = CollectorRun(name="hostname", outcome="failed", seconds=0.0, detail=detail)
    return replace(snapshot, runs=(*snapshot.runs, run))


class _RoutedNode(Struct, gc=False):
    stamp: float | None
    since: float
    is_reported: bool = False


class RouterNodes:
    """Nodes of one router, which repeats the last message of a dead node forever.

    Only a changed stamp is new data. A node whose stamp has not changed since the first response
    may be dead: it is reported once after the grace period, as old as its stamp says.
    """

    def __init__(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._machines = NamedMachines()
        self._known: dict[str, _RoutedNode] = {}

    def new_snapshots(
        self, nodes: Iterable[NodeMessage], now: float
    ) -> Iterator[tuple[Snapshot, float]]:
        """Yield a snapshot of each node that has new data, and its age in seconds."""
        places = Counter[str]()
        for message in nodes:
            places[message.name] += 1
            try:
                machine = self._machines.find(message, MessageOrigin("", places[message.name]), now)
            except Refused:  # a router that invents names must not fill the memory
                continue
            known = self._known.get(machine.node_id)
            if known is None:
                known = self._known[machine.node_id] = _RoutedNode(message.timestamp, now)
            waited = now - known.since
            # Different, not later: the clock of a node may be set back. Without a time (2018)
            # the age is unknown, and every message counts as new.
            if message.timestamp is None or message.timestamp != known.stamp:
                known.stamp, known.since = message.timestamp, now
                interval, age = _interval(waited), 0.0
                machine.received_at = now
            elif not known.is_reported and waited >= self._grace_seconds:
                # When it stopped is known by its own clock alone, which an older client shows.
                age = max(_GRACE_SECONDS, now - message.timestamp)
                interval = _INTERVALS[0]
            else:
                continue
            known.is_reported = True
            machine.count += 1
            snapshot = to_snapshot(
                message,
                now,
                interval_seconds=interval,
                sequence=machine.count,
                node_id=machine.node_id,
            )
            yield with_namesake(snapshot, self._machines.namesake(message.name, machine, now)), age


def _interval(gap_seconds: float) -> float:
    """Guess the interval of a node from the time since its last message."""
    fitting = (interval for interval in _INTERVALS if gap_seconds <= _TOLERANCE * interval)
    return next(fitting, _DEFAULT_INTERVAL)
