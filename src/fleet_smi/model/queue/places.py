"""Where a request could be met: the GPUs of each node that fit it, free or not.

A large fleet has few kinds of GPUs. Whether a kind fits is judged once, by the check that offers
are judged by; which GPUs of that kind are free is then only looked up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.candidates import device_label, node_devices
from fleet_smi.model.card_size import device_gigabytes, memory_for_request
from fleet_smi.model.fit_check import FitCheck
from fleet_smi.model.fleet import NodeView, Verdict
from fleet_smi.model.policies import is_closed as is_admin_closed
from fleet_smi.model.queue.entries import (
    ANYWHERE,
    LABEL_PREFIX,
    NODE_PREFIX,
    QueueRequest,
    Shape,
    shape_of,
)
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.readings import free_memory, total_memory
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.views import NodeParts

_UNUSED = Verdict(state="free", reason="", since=0.0)
_UNUSABLE = ("broken", "unknown")
_REPRESENTATIVE = NodeView(node_id="", name="", taken_at=0.0, age_seconds=0.0)


class Kind(NamedTuple):
    """GPUs that no request can tell apart, or MIG instances of one profile."""

    vendor: str
    name: str | None
    profile: str | None
    total_bytes: int | None


class Slot(NamedTuple):
    """A GPU or instance of a node; `closed` where it will not become free by itself."""

    uuid: str
    label: str
    kind: Kind
    device: Gpu | Instance
    free: bool
    closed: bool


class Room(NamedTuple):
    """The GPUs and instances of one node, and their kinds."""

    node: NodeView
    slots: tuple[Slot, ...]
    kinds: frozenset[Kind]


class Place(Struct, frozen=True, gc=False):
    """The GPUs of one node that a request could use: how many in all, free now, and in use.

    `total` leaves out what is broken or closed.
    """

    node_id: str
    node: str
    free: tuple[str, ...]
    total: int
    used: tuple[str, ...] = ()


class Survey:
    """The GPUs of a fleet at one moment, for many requests."""

    def __init__(
        self,
        nodes: Sequence[NodeParts],
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        is_closed: Callable[[NodeParts, str], bool] = lambda _node, _uuid: False,
        *,
        ignore_states: bool = False,
    ) -> None:
        """Survey the nodes that report; with `ignore_states` all, as if everything were unused."""
        self._thresholds = thresholds
        self._ignore_states = ignore_states
        self._samples: dict[Kind, tuple[Gpu, Instance | None]] = {}
        self.rooms = {
            parts.node.node_id: self._room(parts, is_closed)
            for parts in nodes
            if ignore_states or not parts.node.silent
        }
        self._nodes_by_uuid: dict[str, list[str]] | None = None
        self._places: dict[Shape, tuple[Place, ...]] = {}

    def places(self, request: QueueRequest) -> tuple[Place, ...]:
        """Return the nodes that could meet a request, or some of it, in the order of the fleet."""
        shape = shape_of(request)
        if shape not in self._places:
            rooms = [room for room in self._rooms(request) if is_place(room.node, request.where)]
            kinds = self._fitting_kinds(request, rooms)
            found = (self._place(room, request, kinds) for room in rooms)
            self._places[shape] = tuple([place for place in found if place is not None])
        return self._places[shape]

    def labels(self, node_id: str, uuids: Sequence[str]) -> tuple[str, ...]:
        """Return the short names of GPUs of a node."""
        names = {slot.uuid: slot.label for slot in self.rooms[node_id].slots}
        return tuple([names[uuid] for uuid in uuids])

    def _room(self, parts: NodeParts, is_closed: Callable[[NodeParts, str], bool]) -> Room:
        slots = []
        if self._ignore_states and parts.node.silent:
            parts = replace(parts, node=replace(parts.node, silent=False))
        for gpu, part, device, verdict in node_devices(parts):
            instance = device if isinstance(device, Instance) else None
            profile = None if instance is None else instance.profile or ""
            kind = Kind(gpu.vendor, gpu.name, profile, total_memory(device))
            self._samples.setdefault(kind, (gpu, instance))
            is_unusable = not self._ignore_states and (
                verdict.state in _UNUSABLE or is_admin_closed(verdict)
            )
            closed = is_unusable or is_closed(parts, device.uuid)
            free = verdict.state == "free" and not closed
            label = device_label(parts.node.name, gpu.index, part)
            slots.append(Slot(device.uuid, label, kind, device, free, closed))
        return Room(parts.node, tuple(slots), frozenset([slot.kind for slot in slots]))

    def _rooms(self, request: QueueRequest) -> Iterable[Room]:
        """Return the nodes that have what the request names; all where it names nothing."""
        if not request.uuids:
            return self.rooms.values()
        if self._nodes_by_uuid is None:
            # Several nodes may report one UUID: they choose them themselves.
            self._nodes_by_uuid = {}
            for node_id, room in self.rooms.items():
                for slot in room.slots:
                    self._nodes_by_uuid.setdefault(slot.uuid, []).append(node_id)
        named = [self._nodes_by_uuid.get(uuid, ()) for uuid in request.uuids]
        ids = dict.fromkeys([node_id for found in named for node_id in found])
        return [self.rooms[node_id] for node_id in ids]

    def _fitting_kinds(self, request: QueueRequest, rooms: Sequence[Room]) -> frozenset[Kind]:
        present = frozenset[Kind]().union(*[room.kinds for room in rooms])
        kinds, gpus = dict[str, Kind](), []
        for number, kind in enumerate(sorted(present, key=repr)):
            gpu, instance = self._samples[kind]
            # Each under an id of its own: nodes may report anything, also one UUID twice.
            uuid = str(number)
            kinds[uuid] = kind
            gpus.append(_unused(gpu, instance, uuid))
        verdicts = {part.uuid: _UNUSED for gpu in gpus for part in gpu.instances}
        parts = NodeParts(
            node=_REPRESENTATIVE,
            gpus=tuple([(gpu, _UNUSED) for gpu in gpus]),
            verdicts=verdicts,
        )
        check = FitCheck([parts], request.gpu_request(), self._thresholds)
        return frozenset(kinds[one.device.uuid] for one in check.fitting())

    def _place(self, room: Room, request: QueueRequest, kinds: frozenset[Kind]) -> Place | None:
        named = frozenset(request.uuids)
        fitting = [
            slot
            for slot in room.slots
            if slot.kind in kinds and not slot.closed and (not named or slot.uuid in named)
        ]
        # CUDA cannot mix whole GPUs and instances.
        whole = [slot for slot in fitting if slot.kind.profile is None]
        parts = [slot for slot in fitting if slot.kind.profile is not None]
        chosen = whole if len(whole) >= request.count or len(whole) >= len(parts) else parts
        if not chosen:
            return None
        free = [slot.uuid for slot in chosen if slot.free and _has_memory(slot.device, request)]
        used = [slot.uuid for slot in chosen if slot.uuid not in free]
        return Place(room.node.node_id, room.node.name, tuple(free), len(chosen), tuple(used))


def is_place(node: NodeView, where: str) -> bool:
    """Whether a node is where a request wants to be."""
    if where == ANYWHERE:
        return True
    if where.startswith(NODE_PREFIX):
        return where.removeprefix(NODE_PREFIX) in (node.name, node.node_id)
    key, _, value = where.removeprefix(LABEL_PREFIX).partition("=")
    return has_label(node.labels, key, value)


def has_label(labels: Mapping[str, str], key: str, value: str) -> bool:
    """Whether a node has a label; with an empty value, whatever its value is."""
    return key in labels and value in ("", labels[key])


def _has_memory(device: Gpu | Instance, request: QueueRequest) -> bool:
    needed = request.min_free_bytes
    if not needed:
        return True
    free, total = free_memory(device), total_memory(device)
    if free is None:
        return False
    return memory_for_request(free, total, device_gigabytes(device), needed) >= needed


def _unused(gpu: Gpu, instance: Instance | None, uuid: str) -> Gpu:
    """Return a GPU as it would be if nobody used it, with at most this one instance."""
    parts: tuple[Instance, ...] = ()
    if instance is not None:
        parts = (replace(instance, uuid=uuid, memory_used_bytes=0, processes=(), lease=None),)
    return replace(
        gpu,
        uuid=f"gpu {uuid}" if parts else uuid,
        memory_used_bytes=0,
        processes=(),
        lease=None,
        instances=parts,
    )
