"""Publisher: sends changes of a hub's own nodes to the others, as whole nodes or as figures."""

from collections.abc import Iterable

from msgspec import Raw

from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.views import NodeParts, build_node_view
from fleet_smi.wire.cluster import (
    BriefNode,
    Changes,
    FigureRow,
    NodeUpdate,
    diff_rows,
    encode_fitting_brief,
    figure_rows,
)

# More than its figures is sent again after this time: what only the whole node has, such as the
# memory of a process, is at most as old at the other hubs.
_REFRESH_SECONDS = 30.0
_MAX_NODES_PER_MESSAGE = 200
# With one more node, which may have `MAX_BRIEF_BYTES`, it is less than NATS carries.
_MAX_MESSAGE_BYTES = 512 << 10
_BYTES_PER_ROW = 40


_Facts = tuple[object, ...]
"""The fields whose change causes a node to be sent as a whole."""


class _Sent:
    """One node as it was last sent."""

    __slots__ = ("facts", "has_gpus", "number", "refresh_at", "rows")

    def __init__(self, number: int) -> None:
        self.number = number
        self.facts: _Facts | None = None
        self.rows: tuple[FigureRow, ...] = ()
        self.has_gpus = True
        self.refresh_at = 0.0


class ChangePublisher:
    """Compares the nodes that this hub hears with what it sent of them."""

    def __init__(self, fleet: ClusterFleet, hub: str, instance: str) -> None:
        self.sequence = 0
        """The number of the last message."""
        self._fleet = fleet
        self._hub, self._instance = hub, instance
        self._sent: dict[str, _Sent] = {}
        self._last_number = 0
        self._pending: dict[str, None] = {}  # the longest waiting first
        self._removed: list[str] = []

    def enqueue(self, node_ids: Iterable[str]) -> None:
        """Queue nodes that changed."""
        self._pending.update(dict.fromkeys(node_ids))

    def remove(self, node_id: str) -> None:
        """Queue the removal of a node by an administrator."""
        self._removed.append(node_id)

    def resend_all(self) -> None:
        """Send all nodes whole: a hub is new, or has missed a message."""
        for node_id, sent in self._sent.items():
            sent.facts = None
            self._pending[node_id] = None

    def next_changes(self, now: float) -> Changes | None:
        """Return the next message, `None` where there is nothing to send."""
        nodes: list[Raw] = []
        updates: list[NodeUpdate] = []
        size = 0
        while self._pending and len(nodes) + len(updates) < _MAX_NODES_PER_MESSAGE:
            node_id = next(iter(self._pending))
            del self._pending[node_id]
            with self._fleet.faults.guard("stream"):
                found = self._compare(node_id, now)
                if isinstance(found, NodeUpdate):
                    updates.append(found)
                    size += _BYTES_PER_ROW * len(found.rows)
                elif found is not None:
                    nodes.append(found)
                    size += len(found)
            if size > _MAX_MESSAGE_BYTES:
                break
        removed, self._removed = self._removed, []
        if not (nodes or updates or removed):
            return None
        self.sequence += 1
        return Changes(
            self._hub,
            self._instance,
            self.sequence,
            tuple(nodes),
            tuple(updates),
            tuple(removed),
        )

    def _compare(self, node_id: str, now: float) -> Raw | NodeUpdate | None:
        parts = self._fleet.own_parts(node_id, now)
        # A target that never reported is listed by the hubs that have it in their settings.
        if parts is None or parts.node.age_seconds is None:
            self._sent.pop(node_id, None)
            return None
        sent = self._sent.get(node_id)
        if sent is None:
            self._last_number += 1
            sent = self._sent[node_id] = _Sent(self._last_number)
        epoch = self._fleet.owned.get(node_id)
        facts = _facts(parts, epoch)
        rows = figure_rows([gpu for gpu, _ in parts.gpus])
        before, sent.rows = sent.rows, rows
        if facts == sent.facts and now < sent.refresh_at and len(before) == len(rows):
            changed = diff_rows(before, rows) if sent.has_gpus else ()
            return NodeUpdate(sent.number, parts.node.age_seconds, changed)
        sent.facts, sent.refresh_at = facts, now + _REFRESH_SECONDS
        view = build_node_view(parts)
        encoded, shown = encode_fitting_brief(BriefNode(sent.number, epoch, view))
        sent.has_gpus = len(shown.gpus) == len(view.gpus)
        return encoded


def _facts(parts: NodeParts, epoch: int | None) -> _Facts:
    """All of a node that a fleet view shows, but for figures, and texts that are made from them."""
    node = parts.node
    devices: list[object] = [
        epoch,
        node.name,
        node.silent,
        node.via,
        node.trouble,
        node.labels,
        node.ssh_host,
        node.boot_id,
        node.missing_reports,
        len(node.warnings),
        len(node.failures),
    ]
    for gpu, verdict in parts.gpus:
        devices += _device_facts(gpu, verdict)
        for instance in gpu.instances:
            devices += _device_facts(instance, parts.verdicts[instance.uuid])
    return tuple(devices)


def _device_facts(device: Gpu | Instance, verdict: Verdict) -> tuple[object, ...]:
    processes, state = device.processes, verdict.state
    return (
        device.uuid,
        state,
        verdict.since,
        # That of a GPU in use has its load in it.
        None if state in ("busy", "held") else verdict.reason,
        [note.kind for note in verdict.notes] if verdict.notes else None,
        None if processes is None else [process.pid for process in processes],
    )
