"""The fleet as it stood at one moment, put together again from what was written down.

Pure: the caller brings what is known of each node. What was not written down is unknown, and
a node that was not heard at that moment is silent, as it was then.
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
_Part = TypeVar("_Part", JudgedGpu, JudgedInstance)
_WITHOUT_A_LIST = ("broken", "unknown")
"""Of a GPU in these states nobody knew who was on it, unless somebody was seen."""


class GpuAt(Struct, frozen=True, kw_only=True):
    """A GPU or instance with the last period that had begun, and since when it stood that way."""

    gpu: GpuOfNode
    period: Period
    since: float
    figures: FigureValues = {}


class NodeAt(Struct, frozen=True, kw_only=True):
    """A node with the last stretch in which it was heard that had begun."""

    node: NodeRow
    presence: Presence
    gpus: tuple[GpuAt, ...] = ()
    figures: FigureValues = {}


def fleet_at(at: float, nodes: Iterable[NodeAt]) -> FleetView:
    """The fleet at that moment, nodes in the order of their names."""
    known = [_node(at, then) for then in nodes if not _was_removed(at, then.presence)]
    ordered = tuple(sorted(known, key=lambda node: (natural_sort_key(node.name), node.node_id)))
    return FleetView(taken_at=at, summary=summarize_nodes(ordered), nodes=ordered)


def _was_removed(at: float, presence: Presence) -> bool:
    """Only who is removed is known to be gone: whoever falls silent may come back."""
    return presence.certain and presence.end is not None and presence.end <= at


def _node(at: float, then: NodeAt) -> NodeView:
    heard_until = _until(at, then.presence.end)
    return NodeView(
        node_id=then.node.node_id,
        name=then.node.name,
        labels=then.node.labels,
        taken_at=heard_until,
        age_seconds=at - heard_until,
        silent=heard_until < at,
        host=Host(cpu_percent=then.figures.get("cpu_percent")),
        gpus=tuple(_gpus(at, then.gpus)),
    )


def _gpus(at: float, gpus: Iterable[GpuAt]) -> Iterable[JudgedGpu]:
    """The whole GPUs in the order of their indices, each with its instances."""
    there = [one for one in gpus if not _was_taken_out(at, one.period)]
    there.sort(key=lambda one: (one.gpu.index, one.gpu.uuid))
    for one in there:
        if one.gpu.parent is None:
            parts = [part for part in there if part.gpu.parent == one.gpu.uuid]
            yield _gpu(at, one, tuple(_instance(at, part) for part in parts))


def _was_taken_out(at: float, period: Period) -> bool:
    return period.certain and period.end is not None and period.end <= at


def _gpu(at: float, then: GpuAt, instances: tuple[JudgedInstance, ...]) -> JudgedGpu:
    figures = then.figures
    clock = figures.get("sm_clock_mhz")
    gpu = JudgedGpu(
        uuid=then.gpu.uuid,
        index=then.gpu.index,
        vendor=then.gpu.vendor,
        name=then.gpu.model,
        busy_percent=figures.get("busy_percent"),
        temperature_celsius=figures.get("temperature_celsius"),
        power_watts=figures.get("power_watts"),
        sm_clock_mhz=None if clock is None else round(clock),
        mig_mode=True if instances else None,
        instances=instances,
        verdict=_verdict(at, then),
        **_held(then),
    )
    return _as_heard(at, then.period, gpu)


def _instance(at: float, then: GpuAt) -> JudgedInstance:
    part = JudgedInstance(
        uuid=then.gpu.uuid,
        profile=then.gpu.model,
        busy_percent=then.figures.get("busy_percent"),
        verdict=_verdict(at, then),
        **_held(then),
    )
    return _as_heard(at, then.period, part)


def _held(then: GpuAt) -> dict[str, Any]:
    """Its memory and who was on it: who was there alone had all that was used."""
    memory = then.figures.get("memory_used_bytes")
    used = None if memory is None else round(memory)
    holders, unread = then.period.holders, then.period.state in _WITHOUT_A_LIST
    theirs = used if len(holders) == 1 else None
    processes = tuple([_process(holder, theirs) for holder in holders])
    return {
        "memory_total_bytes": then.gpu.memory_total_bytes,
        "memory_used_bytes": used,
        "processes": None if unread and not holders else processes,
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


def _verdict(at: float, then: GpuAt) -> Verdict:
    state = then.period.state
    return Verdict(
        state=state,
        reason=_reason(at, then),
        since=then.since,
        # It was called held once it had been idle for a while: it was so at least since then.
        idle_seconds=at - then.since if state == "held" else None,
    )


def _reason(at: float, then: GpuAt) -> str:
    """Why, by the figures of that moment: those in the period's own words are of its beginning."""
    state, holders = then.period.state, then.period.holders
    people = [*dict.fromkeys([one.user for one in holders if one.user != HIDDEN_USER])]
    if people and state == "busy":
        return (
            f"{reasons.join_names(people)}, {reasons.format_load(then.figures.get('busy_percent'))}"
        )
    if people and state == "held":
        return f"{reasons.join_names(people)}, idle for {format_duration(at - then.since)}"
    return then.period.reason


def _as_heard(at: float, period: Period, part: _Part) -> _Part:
    """The part as it stood; where it was not heard then, with what had been known of it."""
    heard_until = _until(at, period.end)
    if heard_until >= at:
        return part
    verdict = apply_silence(part.verdict, part, at - heard_until, heard_until)
    return replace(part, verdict=verdict)


def _until(at: float, end: float | None) -> float:
    return at if end is None else min(at, end)
