"""Snapshot of the fleet at a past time, reconstructed from stored periods and figures.

Pure: the caller reads the rows. What is not stored is unknown, and a node that was not reporting
at that time is silent in the snapshot.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.rows import NodeRow, Presence
from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, Verdict
from fleet_smi.model.history import GpuOfNode, Holder, Period
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.snapshot import Host, Process
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.judge import apply_silence
from fleet_smi.model.views import summarize_nodes

FigureValues = Mapping[str, float | None]
_Device = TypeVar("_Device", JudgedGpu, JudgedInstance)
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
    """The fleet at that time, with nodes ordered by name."""
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
    figures = gpu_at.figures
    clock = figures.get("sm_clock_mhz")
    gpu = JudgedGpu(
        uuid=gpu_at.gpu.uuid,
        index=gpu_at.gpu.index,
        vendor=gpu_at.gpu.vendor,
        name=gpu_at.gpu.model,
        busy_percent=figures.get("busy_percent"),
        temperature_celsius=figures.get("temperature_celsius"),
        power_watts=figures.get("power_watts"),
        sm_clock_mhz=None if clock is None else round(clock),
        # Unknown, not false: the mode is not stored, and MIG may be on without instances.
        mig_mode=True if instances else None,
        instances=instances,
        verdict=_verdict(at, gpu_at),
        **_memory_and_processes(gpu_at),
    )
    return _apply_silence(at, gpu_at.period, gpu)


def _instance(at: float, gpu_at: GpuAt) -> JudgedInstance:
    instance = JudgedInstance(
        uuid=gpu_at.gpu.uuid,
        profile=gpu_at.gpu.model,
        busy_percent=gpu_at.figures.get("busy_percent"),
        verdict=_verdict(at, gpu_at),
        **_memory_and_processes(gpu_at),
    )
    return _apply_silence(at, gpu_at.period, instance)


def _memory_and_processes(gpu_at: GpuAt) -> dict[str, Any]:
    """The memory and the processes of a device; a sole process is given all of the memory."""
    memory = gpu_at.figures.get("memory_used_bytes")
    used = None if memory is None else round(memory)
    holders = gpu_at.period.holders
    is_unknown = gpu_at.period.state in _STATES_WITHOUT_PROCESSES and not holders
    # The memory in `holders` is that of the period's start.
    process_memory = used if len(holders) == 1 else None
    processes = tuple([_process(holder, process_memory) for holder in holders])
    return {
        "memory_total_bytes": gpu_at.gpu.memory_total_bytes,
        "memory_used_bytes": used,
        "processes": None if is_unknown else processes,
    }


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
