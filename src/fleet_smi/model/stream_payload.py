"""A node in brief: what a grid or a table shows of it, and nothing that only a closer look needs.

There are two halves. The facts (`NodeBrief`) change when something happens. The figures
(`NodeFigures`) move with every sample; they are whole numbers, as they are shown, so that noise
costs nothing. Command lines, clocks and the rest are told by a look at the node itself.
"""

from msgspec import Struct

from fleet_smi.model.fleet import NoteKind, State, Summary


class VerdictPayload(Struct, frozen=True, kw_only=True, gc=False):
    """The judgement on one GPU or instance, without words for what moves.

    `since` and `idle_since` are times by the hub's clock, in seconds since 1970. `users` is
    `None` when the processes cannot be read. `reason` is `None` where the other fields say it
    all: on a GPU that is busy or held, whose users, load and `idle_since` are told, and on a
    silent node, where `was` is what it was last known as. The whole sentence is told with the
    node itself.
    """

    state: State
    since: float
    reason: str | None = None
    was: str | None = None
    users: tuple[str, ...] | None = None
    idle_since: int | None = None
    notes: tuple[NoteKind, ...] = ()


class InstancePayload(Struct, frozen=True, kw_only=True, gc=False):
    """What is to be known of one MIG instance."""

    uuid: str
    profile: str | None
    memory_total_mebibytes: int | None
    verdict: VerdictPayload


class GpuPayload(Struct, frozen=True, kw_only=True, gc=False):
    """What is to be known of one GPU."""

    uuid: str
    index: int
    name: str | None
    memory_total_mebibytes: int | None
    verdict: VerdictPayload
    instances: tuple[InstancePayload, ...] = ()


class NodePayload(Struct, frozen=True, kw_only=True, gc=False):
    """What is to be known of one node.

    `number` is what its figures go by; it means nothing outside one stream. `warnings` counts
    what could not be read of it, and a clock that is off. `gpus` are in the order of their
    indices.
    """

    number: int
    node_id: str
    name: str
    silent: bool = False
    via: str | None = None
    trouble: str | None = None
    warnings: int = 0
    labels: dict[str, str] = {}
    driver_version: str | None = None
    gpus: tuple[GpuPayload, ...] = ()


class DeviceFigures(Struct, frozen=True, array_like=True, gc=False):
    """The moving figures of one GPU or instance; `None` is not measured."""

    busy_percent: int | None
    memory_used_mebibytes: int | None
    temperature_celsius: int | None = None
    power_watts: int | None = None


class NodeFigures(Struct, frozen=True, array_like=True, gc=False):
    """The moving figures of one node.

    `heard_at` is when its last sample was taken, in seconds since 1970 by the hub's clock.
    `parts` has a row for each GPU, in their order, each followed by those of its instances.
    """

    number: int
    heard_at: int | None
    cpu_percent: int | None
    memory_percent: int | None
    parts: tuple[DeviceFigures, ...]


class FleetPayload(Struct, frozen=True, kw_only=True):
    """The fleet in brief at one moment; nodes and figures by the numbers of the nodes."""

    taken_at: float
    summary: Summary
    nodes: dict[int, NodePayload]
    figures: dict[int, NodeFigures]
