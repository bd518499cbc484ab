"""De-duplication of host names: two cluster-smi nodes of one name stay two nodes.

cluster-smi identifies a machine by its name only, so that two overwrite each other. Here they are
distinguished by the origin and the content of their messages. Pure.
"""

from hashlib import blake2s
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.compat.cluster_smi.codec import MAX_NODES, NodeMessage, node_id_from_name
from fleet_smi.errors import Refused

ALIVE_SECONDS = 180.0
# A node rounds its boot time to 128 s, each time it reads it.
_BOOT_TIME_ERROR_SECONDS = 256
# Messages that must alternate before they are of two machines: one that reconnects looks like
# another one once, or even twice where the new connection gets the number of an old one.
_MIN_ALTERNATIONS = 2


class MessageOrigin(NamedTuple):
    """Where a message comes from: the address and the connection, or the place in a response."""

    address: str
    connection: int


class _Face(NamedTuple):
    """The properties that all messages of one machine share."""

    origin: MessageOrigin
    boot_time: int
    devices: dict[int, tuple[str, int]]

    def is_same_machine(self, other: "_Face") -> bool:
        apart = abs(self.boot_time - other.boot_time)
        if self.boot_time and other.boot_time and apart > _BOOT_TIME_ERROR_SECONDS:
            return False
        shared = self.devices.keys() & other.devices.keys()
        return all(self.devices[at] == other.devices[at] for at in shared)

    def is_same_sender(self, other: "_Face") -> bool:
        return self.origin == other.origin and self.is_same_machine(other)


class NamedMachine(Struct, gc=False):
    """One machine of a name; `received_at` is when it sent its last message."""

    node_id: str
    face: _Face
    received_at: float
    count: int = 0
    former: _Face | None = None
    alternations: int = 0

    def was(self, face: _Face) -> bool:
        """Return whether a message is like those before it seemed to reconnect or reboot."""
        former, address = self.former, self.face.origin.address
        # Two addresses are two machines at once, without waiting for messages to alternate.
        return (
            former is not None and former.origin.address == address and former.is_same_sender(face)
        )


class NamedMachines:
    """The machines of every name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[NamedMachine]] = {}
        self._count = 0

    def find(self, message: NodeMessage, origin: MessageOrigin, now: float) -> NamedMachine:
        """Return the machine of a message; raise `Refused` beyond the limit of nodes."""
        face, machines = _face(message, origin), self._by_name.get(message.name)
        if machines is None:
            return self._add(message.name, node_id_from_name(message.name), face, now)
        for machine in machines:
            if machine.face.is_same_sender(face):
                return machine
        for machine in machines:
            if machine.was(face):
                return self._alternate(message.name, machine, face, now)
        return self._changed_or_new(message.name, machines, face, now)

    def namesake(self, name: str, machine: NamedMachine, now: float) -> str | None:
        """Return the address of another machine of this name that sends messages now."""
        for other in self._by_name.get(name, ()):
            if other is not machine and now - other.received_at < ALIVE_SECONDS:
                return other.face.origin.address or "the same router"
        return None

    def _changed_or_new(
        self, name: str, machines: list[NamedMachine], face: _Face, now: float
    ) -> NamedMachine:
        """Return a machine that was rebooted, reconnected or moved, or a new one."""
        address = face.origin.address
        near = [each for each in machines if each.face.origin.address == address]
        if not near:
            silent = [each for each in machines if now - each.received_at >= ALIVE_SECONDS]
            if not silent:
                return self._add(name, node_id_from_name(name, address), face, now)
            near = silent
        # The longest silent first: it is the one that has reconnected.
        near.sort(key=lambda each: each.received_at)
        alike = [each for each in near if each.face.is_same_machine(face)]
        machine = (alike or near)[0]
        machine.former, machine.face, machine.alternations = machine.face, face, 0
        return machine

    def _alternate(self, name: str, machine: NamedMachine, face: _Face, now: float) -> NamedMachine:
        """Count a message of what this machine was before: two machines send in turns."""
        machine.alternations += 1
        if machine.alternations < _MIN_ALTERNATIONS:
            machine.former, machine.face = machine.face, face
            return machine
        other, machine.former, machine.alternations = machine.face, None, 0
        differs = (face.boot_time, face.devices) != (other.boot_time, other.devices)
        identity = f"{face.boot_time}{sorted(face.devices.items())}" if differs else "second"
        suffix = blake2s(identity.encode("utf-8", "replace"), digest_size=4).hexdigest()
        return self._add(name, node_id_from_name(name, suffix), face, now)

    def _add(self, name: str, node_id: str, face: _Face, now: float) -> NamedMachine:
        machines = self._by_name.get(name, [])
        for machine in machines:
            if machine.node_id == node_id:
                machine.former, machine.face = None, face
                return machine
        if self._count >= MAX_NODES:
            raise Refused(f"more than {MAX_NODES} nodes of cluster-smi push here")
        self._count += 1
        added = NamedMachine(node_id, face, now)
        self._by_name.setdefault(name, []).append(added)
        return added


def _face(message: NodeMessage, origin: MessageOrigin) -> _Face:
    devices: dict[int, tuple[str, int]] = {}
    for position, device in enumerate(message.devices or ()):
        memory = device.memory_utilization
        total = 0 if memory is None else memory.total or 0
        devices[position if device.id is None else device.id] = (device.name, total)
    return _Face(origin, message.boot_time or 0, devices)
