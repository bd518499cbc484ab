"""Diagnosis: what may slow down the work on a GPU, from one look at it and its neighbours.

The verdicts and their notes say most of it. The rest are figures that are only worth a word under
load: an idle card runs at a low clock, and its link at a low speed, as it should.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from fleet_smi.errors import NotFound
from fleet_smi.model.candidates import device_label
from fleet_smi.model.fleet import NodeView, NoteKind, Verdict
from fleet_smi.model.people import compute_or_all_processes, owner
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import GIB, format_duration, pluralize
from fleet_smi.model.verdict.throttling import throttle_kind
from fleet_smi.model.views import NodeParts

Severity = Literal["problem", "warning", "info"]
FindingKind = Literal[
    "silent",
    "state",
    "note",
    "throttled",
    "power_limit",
    "hot",
    "low_load",
    "memory_full",
    "link",
    "clock",
    "straggler",
    "processes",
    "host_cpu",
    "host_memory",
]
USER_PREFIX = "user:"
MAX_FINDINGS = 200
_RANK: dict[Severity, int] = {"problem": 0, "warning": 1, "info": 2}
_SLOW_NOTES: frozenset[NoteKind] = frozenset(
    {"shared", "unaccounted", "stalled", "throttled", "memory_errors", "reset_pending"}
)
_LOADED_PERCENT, _LOW_PERCENT, _MIN_LOADED_PERCENT = 50.0, 30.0, 20.0
_HOT_CELSIUS = 85.0
_SLOW_SHARE = 0.75
"""Of the clock of its best neighbour, or of its own maximum: below it a GPU is a straggler."""
_LIMIT_SHARE, _FULL_SHARE = 0.97, 0.97
_FULL_HOST_PERCENT = 95.0


class SlowdownFinding(Struct, frozen=True, kw_only=True):
    """One thing that may slow work down; without a `gpu` it is about the whole node."""

    kind: FindingKind
    severity: Severity
    node: str
    text: str
    gpu: str | None = None


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What may slow down a node, a GPU or the GPUs of a person, the most severe first.

    `gpus` counts those that were looked at.
    """

    taken_at: float
    target: str
    gpus: int
    findings: tuple[SlowdownFinding, ...] = ()


def diagnose_target(nodes: Sequence[NodeParts], target: str, now: float) -> Diagnosis:
    """Look at "gpu03", "gpu03:1", a UUID or "user:alice"; raise `NotFound` where there is none.

    Of a fleet of one node, an index alone is a GPU.
    """
    selected = [(parts, found) for parts in nodes if (found := _select(parts, target, len(nodes)))]
    named = [parts for parts in nodes if target in (parts.node.name, parts.node.node_id)]
    if not selected and not named:
        raise NotFound(_unknown(target))
    findings = [
        finding
        for parts, gpus in selected or [(parts, []) for parts in named]
        for finding in _node_findings(parts, gpus)
    ]
    findings.sort(key=lambda finding: _RANK[finding.severity])
    return Diagnosis(
        taken_at=now,
        target=target,
        gpus=sum([len(gpus) for _, gpus in selected]),
        findings=tuple(findings[:MAX_FINDINGS]),
    )


def _unknown(target: str) -> str:
    if target.startswith(USER_PREFIX):
        return f"{target.removeprefix(USER_PREFIX)} holds no GPU"
    return f"no node or GPU is called {target}: write it like gpu03, gpu03:1, a UUID or user:alice"


_Judged = tuple[Gpu, Verdict]


def _select(parts: NodeParts, target: str, nodes: int) -> list[_Judged]:
    """Return the GPUs of a node that are meant."""
    if target in (parts.node.name, parts.node.node_id):
        return list(parts.gpus)
    if target.startswith(USER_PREFIX):
        user = target.removeprefix(USER_PREFIX)
        return [] if parts.node.silent else [one for one in parts.gpus if user in _users(one[0])]
    name, colon, index = target.rpartition(":")
    of_node = name in (parts.node.name, parts.node.node_id) if colon else nodes == 1
    return [
        (gpu, verdict)
        for gpu, verdict in parts.gpus
        if target == gpu.uuid
        or any(target == instance.uuid for instance in gpu.instances)
        or (of_node and index == str(gpu.index))
    ]


def _users(gpu: Gpu) -> set[str]:
    instances = [process for part in gpu.instances for process in part.processes or ()]
    return {owner(process) for process in [*(gpu.processes or ()), *instances]}


def _node_findings(parts: NodeParts, gpus: Sequence[_Judged]) -> Iterator[SlowdownFinding]:
    node = parts.node
    if node.silent:
        age = "" if node.age_seconds is None else f" for {format_duration(node.age_seconds)}"
        yield _finding(
            node, None, "silent", "problem", f"the node is silent{age}: nothing is known"
        )
        return
    for gpu, verdict in gpus:
        label = device_label(node.name, gpu.index, None)
        for kind, severity, text in _gpu_findings(gpu, verdict, parts.gpus):
            yield _finding(node, label, kind, severity, text)
    if any(verdict.state == "busy" for _, verdict in gpus):
        yield from _host_findings(node)


def _finding(
    node: NodeView, gpu: str | None, kind: FindingKind, severity: Severity, text: str
) -> SlowdownFinding:
    return SlowdownFinding(kind=kind, severity=severity, node=node.name, gpu=gpu, text=text)


def _host_findings(node: NodeView) -> Iterator[SlowdownFinding]:
    host = node.host
    if host.cpu_percent is not None and host.cpu_percent >= _FULL_HOST_PERCENT:
        text = f"the CPUs are at {host.cpu_percent:.0f} %: GPUs may wait for them"
        yield _finding(node, None, "host_cpu", "warning", text)
    used, total = host.memory_used_bytes, host.memory_total_bytes
    if used is not None and total and 100 * used / total >= _FULL_HOST_PERCENT:
        text = f"the memory of the host is full: {used / GIB:.0f} of {total / GIB:.0f} GiB"
        yield _finding(node, None, "host_memory", "warning", text)


_Found = tuple[FindingKind, Severity, str]


def _gpu_findings(gpu: Gpu, verdict: Verdict, beside: Sequence[_Judged]) -> Iterator[_Found]:
    if verdict.state in ("broken", "ghost", "unknown"):
        severity: Severity = "problem" if verdict.state == "broken" else "warning"
        yield "state", severity, f"{verdict.state}: {verdict.reason}"
    elif verdict.state == "held":
        yield "state", "info", f"held: {verdict.reason}"
    for note in verdict.notes:
        if note.kind in _SLOW_NOTES:
            yield ("throttled" if note.kind == "throttled" else "note"), "warning", note.words
    if not any(note.kind == "throttled" for note in verdict.notes):
        kind = throttle_kind(gpu.throttle_reasons or ())
        if kind is not None:
            yield "throttled", "warning", f"throttled now: {kind}"
    if gpu.temperature_celsius is not None and gpu.temperature_celsius >= _HOT_CELSIUS:
        yield "hot", "warning", f"{gpu.temperature_celsius:.0f} °C"
    if verdict.state == "busy":
        is_shared = any(note.kind == "shared" for note in verdict.notes)
        yield from _load_findings(gpu, beside, is_shared=is_shared)


def _load_findings(gpu: Gpu, beside: Sequence[_Judged], *, is_shared: bool) -> Iterator[_Found]:
    """Yield what is worth a word only while somebody works."""
    load, processes = gpu.busy_percent, compute_or_all_processes(gpu.processes or ())
    if load is not None and load < _LOW_PERCENT:
        text = (
            f"only {load:.0f} % busy now: its program waits for something else, as data or the CPU"
        )
        yield "low_load", "warning", text
    if len(processes) > 1 and not is_shared:
        yield "processes", "info", f"{pluralize(len(processes), 'process')} share it"
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if used is not None and total and used >= _FULL_SHARE * total:
        yield (
            "memory_full",
            "info",
            f"its memory is full: {used / GIB:.1f} of {total / GIB:.1f} GiB",
        )
    if load is None or load < _MIN_LOADED_PERCENT:
        return
    yield from _link_findings(gpu)
    if load >= _LOADED_PERCENT:
        yield from _clock_findings(gpu, beside)


def _link_findings(gpu: Gpu) -> Iterator[_Found]:
    for name, now, most in (
        ("generation", gpu.pcie_generation, gpu.pcie_generation_max),
        ("width", gpu.pcie_width, gpu.pcie_width_max),
    ):
        if now is not None and most is not None and now < most:
            yield "link", "warning", f"PCIe {name} {now} of {most} under load"


def _clock_findings(gpu: Gpu, beside: Sequence[_Judged]) -> Iterator[_Found]:
    power, limit = gpu.power_watts, gpu.power_limit_watts
    is_capped = power is not None and limit is not None and power >= _LIMIT_SHARE * limit
    if is_capped:
        yield "power_limit", "info", f"at its power limit of {limit:.0f} W, as under full load"
    clock, most = gpu.sm_clock_mhz, gpu.sm_clock_max_mhz
    if clock is None:
        return
    if most and clock < _SLOW_SHARE * most and not is_capped:
        yield "clock", "warning", f"SM clock {clock} of {most} MHz under load"
    siblings = [
        other.sm_clock_mhz
        for other, verdict in beside
        if other.name == gpu.name
        and other.uuid != gpu.uuid
        and verdict.state == "busy"
        and other.sm_clock_mhz is not None
        and (other.busy_percent or 0) >= _LOADED_PERCENT
    ]
    if siblings and clock < _SLOW_SHARE * max(siblings):
        text = f"slower than its neighbours: SM clock {clock} MHz, the best {max(siblings)} MHz"
        yield "straggler", "warning", text
