"""Prometheus encoding of the fleet: text exposition format 0.0.4, in base units.

The metrics of GPUs, MIG instances and nodes come from the registry in `model/figures.py`; this
file adds what is counted or judged rather than measured. What is not measured has no sample, and
neither has any figure of a silent node: `fleet_smi_node_up` is 0 then and its GPUs are in the
state `unknown`. A GPU has one sample of `fleet_smi_gpu_state`, always 1, whose label `state` says
which. A GPU with a fault also has one of `fleet_smi_gpu_fault`. No label holds a pid or a command.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, Protocol, get_args

from msgspec import Struct

from fleet_smi.model.figures import GPU_FIGURES, NODE_FIGURES, FigureSpec, Unit
from fleet_smi.model.fleet import STATES, FleetView, JudgedGpu, JudgedInstance, NodeView, Summary
from fleet_smi.model.hub_problems import ProblemKind
from fleet_smi.model.people import owners, people_in_view
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Instance
from fleet_smi.model.stream_payload_builder import unique_processes
from fleet_smi.model.verdict.throttling import throttle_kind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_VALUE = 1e18  # comparing with it drops infinities and NaN, too
_MAX_LABEL_CHARACTERS = 200
_LABEL_CACHE_SIZE = 1 << 17

MetricGroup = Literal["nodes", "gpus", "instances", "users"]
"""Series that a large fleet has many of: of each node, GPU, MIG instance or user."""
SampleValue = float | None
LabelledSubjects = Sequence[tuple[str, Any]]
"""What a family of samples is read from: the labels of each sample, and its subject."""


class Metric(Struct, frozen=True):
    """One family of samples: its name, how its value is read from a subject, and its HELP text."""

    name: str
    read: Callable[[Any], SampleValue]
    help: str

    @property
    def kind(self) -> str:
        """The metric type, by Prometheus's own naming rule: counters end in `_total`."""
        return "counter" if self.name.endswith("_total") else "gauge"


Family = tuple[Metric, LabelledSubjects]


class OwnMetrics(NamedTuple):
    """What a hub publishes of itself: its counts, by name, and its current problems."""

    counts: Mapping[str, float]
    problems: Collection[ProblemKind] = ()


class UserCounts(Protocol):
    """What is counted of a user."""

    @property
    def user(self) -> str: ...
    @property
    def seen(self) -> bool: ...
    @property
    def gpus(self) -> int: ...
    @property
    def idle_gpus(self) -> int: ...


def encode_metrics(
    view: FleetView,
    own: OwnMetrics,
    groups: Collection[MetricGroup] = get_args(MetricGroup),
) -> bytes:
    """Encode the fleet as one document.

    The whole fleet and the hub itself are always in it; of the rest, only these groups.
    """
    # By metric, not by GPU: the format requires that the samples of a metric are contiguous.
    users = people_in_view(view) if "users" in groups else ()
    lines: list[str] = []
    for metric, subjects in chain(
        fleet_families(view.summary, own, users),
        node_families(view.nodes, groups),
    ):
        lines += _lines(metric, subjects)
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def fleet_families(
    summary: Summary, own: OwnMetrics, users: Iterable[UserCounts]
) -> Iterator[Family]:
    """The metrics of the whole fleet, of the hub itself and of users."""
    yield GPUS_BY_STATE, [(_label("state", state), getattr(summary, state)) for state in STATES]
    yield from _each(FLEET_METRICS, [("", summary)])
    yield from _each(_hub_metrics(own.counts), [("", own.counts)])
    kinds = get_args(ProblemKind)
    yield HUB_PROBLEM, [(_label("problem", kind), int(kind in own.problems)) for kind in kinds]
    yield from _each(USER_METRICS, [(_label("user", one.user), one) for one in users if one.seen])


def node_families(
    views: Iterable[NodeView], groups: Collection[MetricGroup] = get_args(MetricGroup)
) -> Iterator[Family]:
    """The metrics of these nodes, their GPUs and MIG instances."""
    nodes = [(_node_labels(node), node) for node in views]
    if "nodes" in groups:
        yield from _each(NODE_STATUS_METRICS, nodes)
        yield from _each(NODE_METRICS, [pair for pair in nodes if not pair[1].silent])
        yield NODE_INFO, [(f"{labels},{_software(node)}", 1) for labels, node in nodes]
    # Only the state of a silent node's GPUs is published: their last figures are out of date.
    measured = _gpus([pair for pair in nodes if not pair[1].silent])
    gpus = measured + _gpus([pair for pair in nodes if pair[1].silent])
    if "gpus" in groups:
        yield from _each(GPU_METRICS, measured)
    if "instances" in groups:
        yield from _each(INSTANCE_METRICS, _instances(measured))
    if "gpus" in groups:
        yield GPU_STATE, _states(gpus)
        yield GPU_FAULT, _faults(measured)
    if "instances" in groups:
        yield INSTANCE_STATE, _states(_instances(gpus))


def _each(metrics: Iterable[Metric], subjects: LabelledSubjects) -> Iterator[Family]:
    return ((metric, subjects) for metric in metrics)


def _lines(metric: Metric, subjects: LabelledSubjects) -> list[str]:
    name, read = metric.name, metric.read
    samples = [
        f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
        for labels, subject in subjects
        if (value := read(subject)) is not None and -MAX_VALUE < value < MAX_VALUE
    ]
    if not samples:
        return []
    return [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}", *samples]


def _gpus(nodes: LabelledSubjects) -> list[tuple[str, JudgedGpu]]:
    return [
        (
            f'{labels},gpu="{gpu.index}",{_label("uuid", gpu.uuid)},{_label("model", gpu.name)}',
            gpu,
        )
        for labels, node in nodes
        for gpu in node.gpus
    ]


def _instances(gpus: LabelledSubjects) -> list[tuple[str, JudgedInstance]]:
    return [
        (
            f"{labels},{_label('mig_uuid', instance.uuid)},{_label('profile', instance.profile)}",
            instance,
        )
        for labels, gpu in gpus
        for instance in gpu.instances
    ]


def _states(devices: LabelledSubjects) -> LabelledSubjects:
    return [(f'{labels},state="{device.verdict.state}"', 1) for labels, device in devices]


def _faults(gpus: LabelledSubjects) -> LabelledSubjects:
    return [
        (f'{labels},fault="{gpu.fault.kind}"', 1) for labels, gpu in gpus if gpu.fault is not None
    ]


def _software(node: NodeView) -> str:
    host = node.host
    versions = {
        "driver": host.driver_version,
        "cuda": host.cuda_version,
        "kernel": host.kernel,
        "agent": node.agent_version,
    }
    return ",".join([_label(name, version) for name, version in versions.items()])


def _node_labels(node: NodeView) -> str:
    labels = f"{_label('node', node.name)},{_label('node_id', node.node_id)}"
    return labels if node.site is None else f"{labels},{_label('site', node.site)}"


# Cached: every scrape and every metric of a GPU needs the same labels.
@lru_cache(maxsize=_LABEL_CACHE_SIZE)
def _label(name: str, value: str | None) -> str:
    """Escape a label's value so that it cannot break out; unknown is empty, as if absent."""
    text = sanitize_text(value or "", _MAX_LABEL_CHARACTERS)
    # The third character to escape, the line feed, has been removed by `sanitize_text`.
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{text}"'


def _hub_metrics(values: Mapping[str, float]) -> list[Metric]:
    """Make a metric of each of the hub's own counts."""
    return [
        _metric(f"hub_{name}", itemgetter(name), HUB_HELP.get(name) or _help_from_name(name))
        for name in values
    ]


def _help_from_name(name: str) -> str:
    words = name.removesuffix("_total").replace("_", " ")
    return f"{words.capitalize()} of the hub."


def _metric(name: str, read: str | Callable[[Any], SampleValue], help_text: str) -> Metric:
    reader = attrgetter(read) if isinstance(read, str) else read
    return Metric(f"fleet_smi_{name}", reader, help_text)


def _figure_metrics(
    prefix: str, figures: Sequence[FigureSpec], path: str = ""
) -> tuple[Metric, ...]:
    """Make the metrics of these figures, each read from the attribute below `path`."""
    return tuple(
        [
            _metric(
                prefix + figure.prometheus,
                _in_base_unit(path + figure.field, figure.unit),
                figure.help,
            )
            for figure in figures
            if figure.prometheus
        ]
    )


def _in_base_unit(field: str, unit: Unit) -> Callable[[Any], SampleValue]:
    read = attrgetter(field)
    if unit == "percent":
        return lambda subject: None if (value := read(subject)) is None else value / 100
    if unit == "megahertz":
        return lambda subject: None if (value := read(subject)) is None else value * 1_000_000
    return read


def _count_of(field: str) -> Callable[[Any], SampleValue]:
    read = attrgetter(field)
    return lambda subject: None if (value := read(subject)) is None else len(value)


def _process_count(gpu: JudgedGpu) -> SampleValue:
    processes, more = unique_processes(gpu), gpu.more_processes
    more += sum([instance.more_processes for instance in gpu.instances])
    return None if processes is None else len(processes) + more


def _user_count(gpu: JudgedGpu) -> SampleValue:
    return None if (processes := unique_processes(gpu)) is None else len(owners(processes))


def _is_slowed_down(*kinds: str) -> Callable[[JudgedGpu], SampleValue]:
    def read(gpu: JudgedGpu) -> SampleValue:
        reasons = gpu.throttle_reasons
        return None if reasons is None else int(throttle_kind(reasons) in kinds)

    return read


def _reset_pending(gpu: JudgedGpu) -> SampleValue:
    return None if gpu.reset_pending is None else 1


def _itself(value: SampleValue) -> SampleValue:
    return value


HUB_HELP = {
    "reports_total": "Snapshots received.",
    "delivery_failures_total": "Failed deliveries of sources.",
    "listeners": "Subscribers to the stream.",
    "memory_failures_total": "Failed attempts to save nodes.",
    "history_batches_total": "Batches passed to the history writer.",
    "history_reports_too_late_total": "Reports too old for the history.",
    "faults_total": "Bugs of the hub that were contained to one node or part.",
    "history_spacing_seconds": "Seconds between recorded samples; 0: every report.",
}
GPUS_BY_STATE = _metric("gpus", _itself, "GPUs in each state.")
HUB_PROBLEM = _metric("hub_problem", _itself, "1 while the hub has this problem, or 0.")
NODE_INFO = _metric("node_info", _itself, "Always 1; the labels are versions.")
GPU_STATE = _metric("gpu_state", _itself, "Always 1; the label is the state.")
GPU_FAULT = _metric("gpu_fault", _itself, "1 while it has a fault; the label is its kind.")
INSTANCE_STATE = _metric("mig_state", _itself, "Always 1; the label is the state.")

FLEET_METRICS = (
    _metric("nodes", "nodes", "Known nodes."),
    _metric("nodes_reporting", "nodes_reporting", "Nodes that are not silent."),
)
USER_METRICS = (
    _metric("user_gpus", "gpus", "GPUs in use by this user."),
    _metric("user_idle_gpus", "idle_gpus", "GPUs held idle by this user."),
)
NODE_STATUS_METRICS = (
    _metric("node_up", lambda node: int(not node.silent), "1, or 0 for a silent node."),
    _metric("node_age_seconds", "age_seconds", "Time since its last report."),
    _metric("node_missing_reports", "missing_reports", "Numbered reports that never arrived."),
)
NODE_METRICS = (
    _metric("node_failed_collectors", _count_of("failures"), "Collectors that failed."),
    *_figure_metrics("node_", NODE_FIGURES, "host."),
)
GPU_METRICS = (
    *_figure_metrics("gpu_", GPU_FIGURES),
    _metric("gpu_throttle_reasons", _count_of("throttle_reasons"), "Active throttle reasons."),
    _metric("gpu_thermal_slowdown", _is_slowed_down("thermal"), "1 while heat slows it down."),
    _metric(
        "gpu_hardware_slowdown",
        _is_slowed_down("power brake", "hardware slowdown"),
        "1 while a power brake or another fault slows it down.",
    ),
    _metric("gpu_reset_pending", _reset_pending, "1 while it waits for a reset."),
    _metric("gpu_processes", _process_count, "Number of processes."),
    _metric("gpu_users", _user_count, "Number of visible users."),
    _metric("gpu_idle_seconds", "verdict.idle_seconds", "Time its processes have been idle."),
)
INSTANCE_METRICS = _figure_metrics(
    "mig_", [figure for figure in GPU_FIGURES if figure.field in Instance.__struct_fields__]
)
