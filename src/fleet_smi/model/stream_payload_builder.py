"""Building of the stream payload of a node: its facts and its figures."""

from collections.abc import Mapping, Sequence
from itertools import chain

from fleet_smi.model.card_size import device_gigabytes
from fleet_smi.model.fleet import FleetView, NodeView, State, Verdict
from fleet_smi.model.people import owners
from fleet_smi.model.snapshot import Gpu, Instance, Lease, Process
from fleet_smi.model.snapshot_figures import GPU_FIELDS, HOST_FIELDS, Column, SnapshotFigures
from fleet_smi.model.stream_payload import (
    DeviceFigures,
    FleetPayload,
    GpuPayload,
    InstancePayload,
    NodeFigures,
    NodePayload,
    VerdictPayload,
)
from fleet_smi.model.views import NodeParts, split_node_view

_MEBIBYTE_BITS = 20
MAX_VALUE = 1e9
_BUSY, _MEMORY, _TEMPERATURE, _POWER = [
    GPU_FIELDS.index(field)
    for field in ("busy_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
]
_HOST_CPU, _HOST_MEMORY = [
    HOST_FIELDS.index(field) for field in ("cpu_percent", "memory_used_bytes")
]


def fleet_payload(view: FleetView, numbers: Mapping[str, int]) -> FleetPayload:
    """Return the whole fleet as the stream sends it.

    `numbers` are those of the live stream, by node id, so that a subscriber can match the nodes
    of a past moment with those it already shows. Nodes without one get negative numbers.
    """
    nodes: dict[int, NodePayload] = {}
    figures: dict[int, NodeFigures] = {}
    for at, node in enumerate(view.nodes, start=1):
        number, parts = numbers.get(node.node_id, -at), split_node_view(node)
        nodes[number] = node_payload(number, parts, view.taken_at)
        figures[number] = node_figures(number, parts, view.taken_at)
    return FleetPayload(taken_at=view.taken_at, summary=view.summary, nodes=nodes, figures=figures)


def node_payload(number: int, parts: NodeParts, now: float) -> NodePayload:
    """Build the facts of a node at this moment."""
    node, verdicts = parts.node, parts.verdicts
    sampled_at = _sampled_at(node, now) or 0.0
    return NodePayload(
        number=number,
        node_id=node.node_id,
        name=node.name,
        silent=node.silent,
        via=node.via,
        trouble=node.trouble,
        warnings=len(node.warnings) + len(node.failures),
        ssh_host=node.ssh_host,
        labels=node.labels,
        driver_version=node.host.driver_version,
        site=node.site,
        bookings=node.bookings,
        gpus=tuple(
            [gpu_payload(gpu, verdict, verdicts, sampled_at) for gpu, verdict in parts.gpus]
        ),
    )


def node_figures(number: int, parts: NodeParts, now: float) -> NodeFigures:
    """Build the figures of a node and its GPUs, rounded as they are shown."""
    sampled_at, host = _sampled_at(parts.node, now), parts.node.host
    rows: list[DeviceFigures] = []
    for gpu, _ in parts.gpus:
        rows.append(_figures(gpu))
        if gpu.instances:
            rows += [
                DeviceFigures(
                    round_finite(instance.busy_percent), to_mebibytes(instance.memory_used_bytes)
                )
                for instance in gpu.instances
            ]
    return NodeFigures(
        number,
        None if sampled_at is None else int(sampled_at),
        round_finite(host.cpu_percent),
        _percent(host.memory_used_bytes, host.memory_total_bytes),
        tuple(rows),
    )


def column_figures(
    number: int,
    figures: SnapshotFigures,
    reported_at: float,
    memory_total_bytes: int | None,
    order: Sequence[int] | None = None,
) -> NodeFigures:
    """Build the same from columns, of a node whose GPUs have no instances.

    `order` has the positions of its GPUs in the columns, where these are not sorted.
    """
    gpus, host = figures.gpus, figures.host
    busy, memory, heat, power = gpus[_BUSY], gpus[_MEMORY], gpus[_TEMPERATURE], gpus[_POWER]
    if order is not None:
        busy, memory, heat, power = [
            tuple([column[position] for position in order])
            for column in (busy, memory, heat, power)
        ]
    rows = map(
        DeviceFigures,
        _rounded(busy),
        [None if used is None else used >> _MEBIBYTE_BITS for used in memory],
        _rounded(heat),
        _rounded(power),
    )
    cpu_percent = round_finite(host[_HOST_CPU])
    memory_percent = _percent(host[_HOST_MEMORY], memory_total_bytes)
    return NodeFigures(number, int(reported_at), cpu_percent, memory_percent, tuple(rows))


def _rounded(column: Column) -> list[int | None]:
    # Without a call for each: this runs for every GPU of the fleet every second or so.
    return [
        round(value) if value is not None and -MAX_VALUE < value < MAX_VALUE else None
        for value in column
    ]


def unique_processes(gpu: Gpu) -> tuple[Process, ...] | None:
    """Return the processes on a GPU and its instances, each once; `None` when not readable."""
    if not gpu.instances:
        return gpu.processes
    devices: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances)
    lists = [device.processes for device in devices if device.processes is not None]
    return tuple({process.pid: process for process in chain(*lists)}.values()) if lists else None


def _sampled_at(node: NodeView, now: float) -> float | None:
    return None if node.age_seconds is None else now - node.age_seconds


def gpu_payload(
    gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict], sampled_at: float
) -> GpuPayload:
    """Build the facts of a GPU; `verdicts` has those on its instances."""
    return GpuPayload(
        uuid=gpu.uuid,
        index=gpu.index,
        vendor=gpu.vendor,
        name=gpu.name,
        memory_total_mebibytes=to_mebibytes(gpu.memory_total_bytes),
        nominal_gigabytes=device_gigabytes(gpu),
        verdict=_verdict(verdict, unique_processes(gpu), sampled_at, gpu.lease),
        instances=_instances(gpu, verdicts, sampled_at) if gpu.instances else (),
    )


def _instances(
    gpu: Gpu, verdicts: Mapping[str, Verdict], sampled_at: float
) -> tuple[InstancePayload, ...]:
    return tuple(
        InstancePayload(
            uuid=instance.uuid,
            profile=instance.profile,
            memory_total_mebibytes=to_mebibytes(instance.memory_total_bytes),
            nominal_gigabytes=device_gigabytes(gpu),
            verdict=_verdict(
                verdicts[instance.uuid], instance.processes, sampled_at, instance.lease
            ),
        )
        for instance in gpu.instances
    )


def _verdict(
    verdict: Verdict,
    processes: Sequence[Process] | None,
    sampled_at: float,
    lease: Lease | None,
) -> VerdictPayload:
    state, idle = verdict.state, verdict.idle_seconds
    # The reason for a broken GPU says already what it was.
    was = None if state == "broken" else verdict.was
    users = visible_users(state, processes)
    # Other fields say it already; the full text changes with every sample of the load.
    redundant = was is not None or (users and state in ("busy", "held"))
    return VerdictPayload(
        state=state,
        since=verdict.since,
        reason=None if redundant else _steady_reason(verdict, lease),
        was=was,
        users=users,
        # A time, not a duration: it stays the same, and sends no event, while the GPU stays idle.
        idle_since=None if idle is None else round(sampled_at - idle),
        notes=tuple([note.kind for note in verdict.notes]) if verdict.notes else (),
    )


def _steady_reason(verdict: Verdict, lease: Lease | None) -> str:
    """Return the reason; under a lease without its age, which would send an event each second."""
    if lease is None or verdict.state != "leased" or lease.scheduler is not None:
        return verdict.reason
    return f"taken by {lease.holder}" + (f": {lease.note}" if lease.note else "")


def visible_users(state: State, processes: Sequence[Process] | None) -> tuple[str, ...] | None:
    """Return the users, most memory first; none on a free GPU, where only a display can be."""
    if state == "free":
        return ()
    if not processes:
        return None if processes is None else ()
    # A single process needs no grouping and sorting by user.
    if len(processes) == 1 and (user := processes[0].user):
        return (user,)
    return owners(processes)


def _figures(gpu: Gpu) -> DeviceFigures:
    return DeviceFigures(
        round_finite(gpu.busy_percent),
        to_mebibytes(gpu.memory_used_bytes),
        round_finite(gpu.temperature_celsius),
        round_finite(gpu.power_watts),
    )


def to_mebibytes(count: int | None) -> int | None:
    """Convert bytes to whole mebibytes; unknown (`None`) stays unknown."""
    return None if count is None else count >> _MEBIBYTE_BITS


def round_finite(value: float | None) -> int | None:
    """Round to a whole number; `None` for NaN, infinite and absurd values."""
    return round(value) if value is not None and -MAX_VALUE < value < MAX_VALUE else None


def _percent(used: int | None, total: int | None) -> int | None:
    return round(100 * used / total) if total and used is not None else None
