"""Snapshot of the fleet at a past time, reconstructed from stored periods and figures.

Pure: the caller reads the rows. What is not stored is unknown, and a node that was not reporting
at that time is silent in the snapshot.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.rows import NodeRow, Presence
from fleet_smi.model.figures import RECORDED_GPU_FIGURES
from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, Verdict
from fleet_smi.model.history import GpuOfNode, Holder, Period
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.snapshot import Gpu, Host, Instance, Process
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.judge import apply_silence
from fleet_smi.model.views import summarize_nodes

FigureValues = Mapping[str, float | None]
_Device = TypeVar("_Device", JudgedGpu, JudgedInstance)
_INTEGERS = {name for name, hint in get_type_hints(Gpu).items() if int in get_args(hint)}
"""The fields of a GPU that are whole numbers."""
_STATES_WITHOUT_PROCESSES = ("broken", "unknown")
"""In these states the processes of a GPU are unknown, unless holders are stored."""


class GpuAt(Struct, frozen=True, kw_only=True):
    """A GPU or instance, its last period that began by that time, and the start of its state."""

    gpu: GpuOfNode
    period: Period
    since: float
    figures: FigureValues = {}


class NodeAt(Struct, frozen=True, kw_only=True):
    """A node with the last interval of reports that began by that time."""

    node: NodeRow
    presence: Presence
    gpus: tuple[GpuAt, ...] = ()
    figures: FigureValues = {}


def build_fleet_at(at: float, nodes: Iterable[NodeAt]) -> FleetView:
    """The fleet at that time, nodes ordered by name; removed nodes and GPUs are left out."""
    known = [_node(at, node_at) for node_at in nodes if not _was_removed(at, node_at.presence)]
    ordered = tuple(sorted(known, key=lambda node: (natural_sort_key(node.name), node.node_id)))
    return FleetView(taken_at=at, summary=summarize_nodes(ordered), nodes=ordered)


def _was_removed(at: float, presence: Presence) -> bool:
    """Whether a node was removed: only then is the end of its reporting certain."""
    return presence.certain and presence.end is not None and presence.end <= at


def _node(at: float, node_at: NodeAt) -> NodeView:
    reported_until = _end_by(at, node_at.presence.end)
    return NodeView(
        node_id=node_at.node.node_id,
        name=node_at.node.name,
        labels=node_at.node.labels,
        taken_at=reported_until,
        age_seconds=at - reported_until,
        silent=reported_until < at,
        host=Host(cpu_percent=node_at.figures.get("cpu_percent")),
        gpus=tuple(_gpus(at, node_at.gpus)),
    )


def _gpus(at: float, gpus: Iterable[GpuAt]) -> Iterable[JudgedGpu]:
    """The GPUs in the order of their indices, each with its instances."""
    present = [gpu for gpu in gpus if not _was_taken_out(at, gpu.period)]
    present.sort(key=lambda device: (device.gpu.index, device.gpu.uuid))
    for device in present:
        if device.gpu.parent is None:
            instances = [part for part in present if part.gpu.parent == device.gpu.uuid]
            yield _gpu(at, device, tuple(_instance(at, part) for part in instances))


def _was_taken_out(at: float, period: Period) -> bool:
    # While its node is silent the end of a period is not certain: the GPU may still be there.
    return period.certain and period.end is not None and period.end <= at


def _gpu(at: float, gpu_at: GpuAt, instances: tuple[JudgedInstance, ...]) -> JudgedGpu:
    gpu = JudgedGpu(
        uuid=gpu_at.gpu.uuid,
        index=gpu_at.gpu.index,
        vendor=gpu_at.gpu.vendor,
        name=gpu_at.gpu.model,
        # Unknown, not false: the mode is not stored, and MIG may be on without instances.
        mig_mode=True if instances else None,
        instances=instances,
        verdict=_verdict(at, gpu_at),
        processes=_processes(gpu_at),
        **_figures(gpu_at, Gpu),
    )
    return _apply_silence(at, gpu_at.period, gpu)


def _instance(at: float, gpu_at: GpuAt) -> JudgedInstance:
    instance = JudgedInstance(
        uuid=gpu_at.gpu.uuid,
        profile=gpu_at.gpu.model,
        verdict=_verdict(at, gpu_at),
        processes=_processes(gpu_at),
        **_figures(gpu_at, Instance),
    )
    return _apply_silence(at, gpu_at.period, instance)


def _figures(gpu_at: GpuAt, device: type[Gpu | Instance]) -> dict[str, Any]:
    """The recorded figures that such a device has; of others only growth or shares are recorded."""
    values = {
        figure.field: gpu_at.figures.get(figure.field)
        for figure in RECORDED_GPU_FIGURES
        if figure.history in ("gauge", "mean") and figure.field in device.__struct_fields__
    }
    for name in _INTEGERS & values.keys():
        if (value := values[name]) is not None:
            values[name] = round(value)  # stored as a float
    return {"memory_total_bytes": gpu_at.gpu.memory_total_bytes, **values}


def _processes(gpu_at: GpuAt) -> tuple[Process, ...] | None:
    """The processes of a device, `None` if unknown.

    The memory of each is not stored: a single process gets all memory in use, several get `None`.
    """
    holders = gpu_at.period.holders
    if gpu_at.period.state in _STATES_WITHOUT_PROCESSES and not holders:
        return None
    used = gpu_at.figures.get("memory_used_bytes")
    # The memory in `holders` is that of the period's start.
    memory = round(used) if used is not None and len(holders) == 1 else None
    return tuple([_process(holder, memory) for holder in holders])


def _process(holder: Holder, memory_bytes: int | None) -> Process:
    return Process(
        pid=holder.pid,
        kind="compute",
        gpu_memory_bytes=memory_bytes,
        user=None if holder.user == HIDDEN_USER else holder.user,
        name=holder.name,
        command=holder.command,
        started_at=holder.started_at,
        container=holder.container,
        slurm_job=holder.slurm_job,
        hidden=holder.user == HIDDEN_USER,
    )


def _verdict(at: float, gpu_at: GpuAt) -> Verdict:
    state = gpu_at.period.state
    return Verdict(
        state=state,
        reason=_reason(at, gpu_at),
        since=gpu_at.since,
        notes=(reasons.VACATED,) if gpu_at.period.reason == reasons.USE_HAS_ENDED else (),
        # A GPU is called held after it has been idle for a while: this is a lower bound.
        idle_seconds=at - gpu_at.since if state == "held" else None,
    )


def _reason(at: float, gpu_at: GpuAt) -> str:
    """The reason with the figures of that time; the stored one has those of the period's start."""
    state, holders = gpu_at.period.state, gpu_at.period.holders
    people = [*dict.fromkeys([one.user for one in holders if one.user != HIDDEN_USER])]
    if people and state == "busy":
        load = reasons.format_load(gpu_at.figures.get("busy_percent"))
        return f"{reasons.join_names(people)}, {load}"
    if people and state == "held":
        return f"{reasons.join_names(people)}, idle for {format_duration(at - gpu_at.since)}"
    return gpu_at.period.reason


def _apply_silence(at: float, period: Period, device: _Device) -> _Device:
    """Mark a device as silent where its period had ended."""
    reported_until = _end_by(at, period.end)
    if reported_until >= at:
        return device
    verdict = apply_silence(device.verdict, device, at - reported_until, reported_until)
    return replace(device, verdict=verdict)


def _end_by(at: float, end: float | None) -> float:
    return at if end is None else min(at, end)
