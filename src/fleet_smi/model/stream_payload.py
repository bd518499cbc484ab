"""The payload of the live stream: what the grid and the table show of each node, and no more.

It has two halves. The facts (`NodePayload`) change when something happens. The figures
(`NodeFigures`) change with every sample; they are rounded to whole numbers, as they are shown, so
that noise below that causes no traffic. `GET /api/v1/nodes/{id}` has all the rest.
"""

from msgspec import Struct

from fleet_smi.model.fleet import NoteKind, State, Summary
from fleet_smi.model.reservation import NodeBooking
from fleet_smi.model.snapshot import Vendor


class VerdictPayload(Struct, frozen=True, kw_only=True, gc=False):
    """The verdict on one GPU or instance, without the parts of its reason that keep changing.

    `since` and `idle_since` are times by the hub's clock, in seconds since 1970. `users` is
    `None` when the processes cannot be read. `reason` is `None` where it can be made from other
    fields: on a GPU that is busy or held, from users, load and `idle_since`, and on a silent
    node, from `was`, its last known state.
    """

    state: State
    since: float
    reason: str | None = None
    was: str | None = None
    users: tuple[str, ...] | None = None
    idle_since: int | None = None
    notes: tuple[NoteKind, ...] = ()


class InstancePayload(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of one MIG instance; `nominal_gigabytes` is the size in its profile."""

    uuid: str
    profile: str | None
    memory_total_mebibytes: int | None
    nominal_gigabytes: int | None = None
    verdict: VerdictPayload


class GpuPayload(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of one GPU; `nominal_gigabytes` is the size that its card is sold with."""

    uuid: str
    index: int
    vendor: Vendor
    name: str | None
    memory_total_mebibytes: int | None
    nominal_gigabytes: int | None = None
    verdict: VerdictPayload
    instances: tuple[InstancePayload, ...] = ()


class NodePayload(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of one node.

    `number` links its figures to it, within one stream only. `warnings` counts its failed
    collectors and other problems. `ssh_host` is where `ssh` reaches it, `site` the site of the hub
    that it reports to, where that is another one. `bookings` are its reservations that are active
    or start soon. `gpus` are sorted by index.
    """

    number: int
    node_id: str
    name: str
    silent: bool = False
    via: str | None = None
    trouble: str | None = None
    warnings: int = 0
    ssh_host: str | None = None
    labels: dict[str, str] = {}
    driver_version: str | None = None
    site: str | None = None
    bookings: tuple[NodeBooking, ...] = ()
    gpus: tuple[GpuPayload, ...] = ()


# `array_like`: figures are sent with every sample, and field names would be most of the bytes.
class DeviceFigures(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one GPU or instance; `None` is not measured."""

    busy_percent: int | None
    memory_used_mebibytes: int | None
    temperature_celsius: int | None = None
    power_watts: int | None = None


class NodeFigures(Struct, frozen=True, array_like=True, gc=False):
    """The figures of one node.

    `reported_at` is when its last sample was taken, in seconds since 1970 by the hub's clock.
    `parts` has one row per GPU, in order, each followed by those of its instances.
    """

    number: int
    reported_at: int | None
    cpu_percent: int | None
    memory_percent: int | None
    parts: tuple[DeviceFigures, ...]


class FleetPayload(Struct, frozen=True, kw_only=True):
    """The whole fleet at one moment; nodes and figures by the numbers of the nodes."""

    taken_at: float
    summary: Summary
    nodes: dict[int, NodePayload]
    figures: dict[int, NodeFigures]
