"""How a node is put in brief: its facts and its figures."""

from collections.abc import Mapping, Sequence
from itertools import chain

from fleet_smi.model.brief import (
    Figures,
    GpuBrief,
    InstanceBrief,
    NodeBrief,
    NodeFigures,
    VerdictBrief,
)
from fleet_smi.model.fleet import NodeView, State, Verdict
from fleet_smi.model.people import owners
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.views import NodeParts

_MEBIBYTE_BITS = 20
_MOST = 1e9


def node_brief(number: int, parts: NodeParts, now: float) -> NodeBrief:
    """The facts of a node as it is at this moment."""
    node, verdicts = parts.node, parts.verdicts
    heard_at = _heard_at(node, now) or 0.0
    return NodeBrief(
        number=number,
        node_id=node.node_id,
        name=node.name,
        silent=node.silent,
        via=node.via,
        trouble=node.trouble,
        warnings=len(node.warnings) + len(node.failures),
        labels=node.labels,
        driver_version=node.host.driver_version,
        gpus=tuple([_gpu(gpu, its, verdicts, heard_at) for gpu, its in parts.gpus]),
    )


def node_figures(number: int, parts: NodeParts, now: float) -> NodeFigures:
    """The figures of a node and its GPUs, as they are shown."""
    heard_at, host = _heard_at(parts.node, now), parts.node.host
    rows: list[Figures] = []
    for gpu, _ in parts.gpus:
        rows.append(_figures(gpu))
        if gpu.instances:
            rows += [
                Figures(whole(one.busy_percent), mebibytes(one.memory_used_bytes))
                for one in gpu.instances
            ]
    return NodeFigures(
        number,
        None if heard_at is None else int(heard_at),
        whole(host.cpu_percent),
        _share(host.memory_used_bytes, host.memory_total_bytes),
        tuple(rows),
    )


def everyone(gpu: Gpu) -> tuple[Process, ...] | None:
    """The processes on a GPU and on its instances, each once; `None` when not readable."""
    if not gpu.instances:
        return gpu.processes
    parts: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances)
    lists = [part.processes for part in parts if part.processes is not None]
    return tuple({one.pid: one for one in chain(*lists)}.values()) if lists else None


def _heard_at(node: NodeView, now: float) -> float | None:
    return None if node.age_seconds is None else now - node.age_seconds


def _gpu(gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict], heard_at: float) -> GpuBrief:
    return GpuBrief(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        memory_total_mebibytes=mebibytes(gpu.memory_total_bytes),
        verdict=_verdict(verdict, everyone(gpu), heard_at),
        instances=_instances(gpu, verdicts, heard_at) if gpu.instances else (),
    )


def _instances(
    gpu: Gpu, verdicts: Mapping[str, Verdict], heard_at: float
) -> tuple[InstanceBrief, ...]:
    return tuple(
        InstanceBrief(
            uuid=instance.uuid,
            profile=instance.profile,
            memory_total_mebibytes=mebibytes(instance.memory_total_bytes),
            verdict=_verdict(verdicts[instance.uuid], instance.processes, heard_at),
        )
        for instance in gpu.instances
    )


def _verdict(
    verdict: Verdict, processes: Sequence[Process] | None, heard_at: float
) -> VerdictBrief:
    state, was, idle = verdict.state, verdict.was, verdict.idle_seconds
    its_users = users(state, processes)
    told = was is not None or (its_users and state in ("busy", "held"))
    return VerdictBrief(
        state=state,
        since=verdict.since,
        reason=None if told else verdict.reason,
        was=was,
        users=its_users,
        idle_since=None if idle is None else round(heard_at - idle),
        notes=tuple([note.kind for note in verdict.notes]) if verdict.notes else (),
    )


def users(state: State, processes: Sequence[Process] | None) -> tuple[str, ...] | None:
    """Who is there, the one with the most memory first; a display on a free GPU is nobody."""
    if state == "free":
        return ()
    if not processes:
        return None if processes is None else ()
    if len(processes) == 1 and (user := processes[0].user):
        return (user,)
    return owners(processes)


def _figures(gpu: Gpu) -> Figures:
    return Figures(
        whole(gpu.busy_percent),
        mebibytes(gpu.memory_used_bytes),
        whole(gpu.temperature_celsius),
        whole(gpu.power_watts),
    )


def mebibytes(count: int | None) -> int | None:
    """Whole mebibytes of bytes."""
    return None if count is None else count >> _MEBIBYTE_BITS


def whole(value: float | None) -> int | None:
    """The nearest whole number; none where there can be none: not a number, infinite."""
    return round(value) if value is not None and -_MOST < value < _MOST else None


def _share(used: int | None, total: int | None) -> int | None:
    return round(100 * used / total) if total and used is not None else None
