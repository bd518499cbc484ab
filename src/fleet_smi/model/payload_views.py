"""Views of nodes, built from the payload of a live stream.

The hub that sent it has judged them: nothing is judged again here. A stream has no processes, so
the users of a GPU are shown as processes of which nothing else is known.
"""

from collections.abc import Sequence

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, NodeView, Note, Verdict
from fleet_smi.model.range_check import RANGES, Number
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Host, Process
from fleet_smi.model.stream_payload import (
    DeviceFigures,
    GpuPayload,
    NodeFigures,
    NodePayload,
    VerdictPayload,
)
from fleet_smi.model.synthetic_pids import synthetic_pid
from fleet_smi.model.units import MIB

MAX_NAME_LENGTH, _MAX_TEXT, _MAX_LABELS, _MAX_GPUS = 128, 1000, 64, 1024
_LATEST_TIME = 2.0**33  # the year 2242
_UNKNOWN = DeviceFigures(None, None)


def build_payload_node(payload: NodePayload, figures: NodeFigures | None, now: float) -> NodeView:
    """Build the view of a node, as the hub that sent the payload sees it."""
    rows = list(figures.parts) if figures is not None else []
    # A time in the future would be one of a clock that differs; one of 400 digits is no time.
    reported_at = None if figures is None else _past(figures.reported_at, now)
    return NodeView(
        node_id=sanitize_text(payload.node_id, MAX_NAME_LENGTH),
        name=sanitize_text(payload.name, MAX_NAME_LENGTH) or payload.node_id,
        site=payload.site,
        taken_at=reported_at,
        age_seconds=None if reported_at is None else max(0.0, now - reported_at),
        silent=payload.silent,
        via=payload.via,
        trouble=_trouble(payload),
        ssh_host=payload.ssh_host,
        labels=dict([*payload.labels.items()][:_MAX_LABELS]),
        host=Host(
            driver_version=payload.driver_version,
            cpu_percent=None if figures is None else _valid("cpu_percent", figures.cpu_percent),
        ),
        gpus=tuple(_gpus(payload.gpus[:_MAX_GPUS], rows, reported_at or now)),
    )


def _trouble(payload: NodePayload) -> str | None:
    if payload.trouble is not None:
        return sanitize_text(payload.trouble, _MAX_TEXT)
    # A stream has the number of warnings, and the hub there their text.
    return "has warnings: see the page of its hub" if payload.warnings else None


def _gpus(
    gpus: Sequence[GpuPayload], rows: Sequence[DeviceFigures], sampled_at: float
) -> list[JudgedGpu]:
    built, at = [], 0
    for gpu in gpus:
        own, *parts = [*rows[at : at + 1 + len(gpu.instances)]] or [_UNKNOWN]
        at += 1 + len(gpu.instances)
        instances = [
            JudgedInstance(
                uuid=instance.uuid,
                profile=instance.profile,
                memory_total_bytes=_bytes(instance.memory_total_mebibytes),
                memory_used_bytes=_bytes(row.memory_used_mebibytes),
                busy_percent=_valid("busy_percent", row.busy_percent),
                processes=_processes(instance.uuid, instance.verdict),
                verdict=_verdict(instance.verdict, sampled_at),
            )
            for instance, row in zip(gpu.instances, parts, strict=False)
        ]
        built.append(
            JudgedGpu(
                uuid=gpu.uuid,
                index=_valid("index", gpu.index) or 0,
                vendor=gpu.vendor,
                name=gpu.name,
                memory_total_bytes=_bytes(gpu.memory_total_mebibytes),
                memory_used_bytes=_bytes(own.memory_used_mebibytes),
                busy_percent=_valid("busy_percent", own.busy_percent),
                temperature_celsius=_valid("temperature_celsius", own.temperature_celsius),
                power_watts=_valid("power_watts", own.power_watts),
                instances=tuple(instances),
                # Those of the instances are on these: they must not be counted twice.
                processes=() if instances else _processes(gpu.uuid, gpu.verdict),
                verdict=_verdict(gpu.verdict, sampled_at),
            )
        )
    return built


def _processes(uuid: str, verdict: VerdictPayload) -> tuple[Process, ...] | None:
    if verdict.users is None:
        return None
    return tuple(
        Process(pid=synthetic_pid(uuid, user), kind="compute", user=user) for user in verdict.users
    )


def _verdict(verdict: VerdictPayload, sampled_at: float) -> Verdict:
    idle_since = _past(verdict.idle_since, sampled_at)
    idle = None if idle_since is None else sampled_at - idle_since
    # A stream leaves out a reason that its other fields say already.
    reason = verdict.reason or verdict.was or ", ".join(verdict.users or ()) or verdict.state
    return Verdict(
        state=verdict.state,
        reason=sanitize_text(reason, _MAX_TEXT),
        since=min(max(0.0, verdict.since), _LATEST_TIME),
        was=verdict.was,
        notes=tuple([Note(kind, kind.replace("_", " ")) for kind in verdict.notes]),
        idle_seconds=idle,
    )


def _bytes(mebibytes: int | None) -> int | None:
    return _valid("memory_total_bytes", None if mebibytes is None else mebibytes * MIB)


def _valid(field: str, value: Number | None) -> Number | None:
    """Return a number of this field; `None` for one that it cannot be, as in a report."""
    low, high = RANGES[field]
    return value if value is not None and low <= value <= high else None


def _past(at: float | None, now: float) -> float | None:
    return None if at is None else float(min(max(0, at), now))
