"""The fleet for Prometheus: text exposition format 0.0.4, in base units.

What is not measured has no sample, and neither has any figure of a node that is silent:
`fleet_smi_node_up` is 0 then and its GPUs are in the state `unknown`. A GPU has one sample of
`fleet_smi_gpu_state`, always 1, whose label `state` says which. No label holds a pid or a command.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from fleet_smi.model.fleet import STATES, FleetView, JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.people import owners, people_in_view
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.stream_payload_builder import unique_processes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST = 1e18
_MOST_CHARACTERS = 200
_MOST_LABELS_KEPT = 1 << 17
_MEGA = 1_000_000

Value = float | None
Rows = Sequence[tuple[str, Any]]


class Metric(Struct, frozen=True):
    """One family of samples: its name, how it is read off its subject, and what it means."""

    name: str
    read: Callable[[Any], Value]
    help: str

    @property
    def kind(self) -> str:
        """What Prometheus calls it, as its own rule for names has it."""
        return "counter" if self.name.endswith("_total") else "gauge"


def encode_metrics(view: FleetView, hub_metrics: Mapping[str, float]) -> bytes:
    """The fleet as one document; `counts` are the hub's own, by their names."""
    lines: list[str] = []
    for metric, rows in _families(view, hub_metrics):
        lines += _lines(metric, rows)
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def _families(view: FleetView, counts: Mapping[str, float]) -> Iterator[tuple[Metric, Rows]]:
    nodes = [(_node_labels(node), node) for node in view.nodes]
    heard = [(labels, node) for labels, node in nodes if not node.silent]
    measured = _gpus(heard)
    gpus = measured + _gpus([(labels, node) for labels, node in nodes if node.silent])
    yield GPUS_BY_STATE, [(_label("state", one), getattr(view.summary, one)) for one in STATES]
    for table, rows in (
        (FLEET_METRICS, [("", view.summary)]),
        (_hub(counts), [("", counts)]),
        (
            USER_METRICS,
            [(_label("user", one.user), one) for one in people_in_view(view) if one.seen],
        ),
        (NODE_STATUS_METRICS, nodes),
        (NODE_METRICS, heard),
        (GPU_METRICS, measured),
        (INSTANCE_METRICS, _instances(measured)),
    ):
        yield from ((metric, rows) for metric in table)
    yield GPU_STATE, _states(gpus)
    yield INSTANCE_STATE, _states(_instances(gpus))


def _lines(metric: Metric, rows: Rows) -> list[str]:
    name, read = metric.name, metric.read
    samples = [
        f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
        for labels, subject in rows
        if (value := read(subject)) is not None and -_MOST < value < _MOST
    ]
    if not samples:
        return []
    return [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}", *samples]


def _gpus(nodes: Rows) -> list[tuple[str, JudgedGpu]]:
    return [
        (
            f'{labels},gpu="{gpu.index}",{_label("uuid", gpu.uuid)},{_label("model", gpu.name)}',
            gpu,
        )
        for labels, node in nodes
        for gpu in node.gpus
    ]


def _instances(gpus: Rows) -> list[tuple[str, JudgedInstance]]:
    return [
        (f"{labels},{_label('mig_uuid', part.uuid)},{_label('profile', part.profile)}", part)
        for labels, gpu in gpus
        for part in gpu.instances
    ]


def _states(parts: Rows) -> Rows:
    return [(f'{labels},state="{part.verdict.state}"', 1) for labels, part in parts]


def _node_labels(node: NodeView) -> str:
    return f"{_label('node', node.name)},{_label('node_id', node.node_id)}"


@lru_cache(maxsize=_MOST_LABELS_KEPT)
def _label(name: str, value: str | None) -> str:
    """A label whose value cannot break out of it; an unknown one is empty, as if it were absent."""
    text = sanitize_text(value or "", _MOST_CHARACTERS).replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{text}"'


def _hub(counts: Mapping[str, float]) -> list[Metric]:
    """A family for each of the hub's own counts."""
    return [_metric(f"hub_{name}", itemgetter(name), HUB_HELP.get(name, "")) for name in counts]


def _metric(name: str, read: str | Callable[[Any], Value], words: str) -> Metric:
    return Metric(f"fleet_smi_{name}", attrgetter(read) if isinstance(read, str) else read, words)


def _scaled(field: str, factor: float) -> Callable[[Any], Value]:
    read = attrgetter(field)
    return lambda subject: None if (value := read(subject)) is None else value * factor


def _ratio(field: str) -> Callable[[Any], Value]:
    read = attrgetter(field)
    return lambda subject: None if (value := read(subject)) is None else value / 100


def _number_of(field: str) -> Callable[[Any], Value]:
    read = attrgetter(field)
    return lambda subject: None if (value := read(subject)) is None else len(value)


def _processes(gpu: JudgedGpu) -> Value:
    return None if (processes := unique_processes(gpu)) is None else len(processes)


def _users(gpu: JudgedGpu) -> Value:
    return None if (processes := unique_processes(gpu)) is None else len(owners(processes))


def _itself(value: Value) -> Value:
    return value


HUB_HELP = {
    "reports_total": "Snapshots taken in.",
    "delivery_failures_total": "Times that a source heard no report.",
    "refused_total": "Requests refused.",
    "listeners": "Listeners to the stream.",
    "history_spacing_seconds": "Seconds between samples of figures; 0 where every report is one.",
}
GPUS_BY_STATE = _metric("gpus", _itself, "GPUs in each state.")
GPU_STATE = _metric("gpu_state", _itself, "Always 1; the label says the state.")
INSTANCE_STATE = _metric("mig_state", _itself, "Always 1; the label says the state.")

FLEET_METRICS = (
    _metric("nodes", "nodes", "Nodes that are known."),
    _metric("nodes_reporting", "nodes_reporting", "Nodes that are not silent."),
)
USER_METRICS = (
    _metric("user_gpus", "gpus", "GPUs that somebody has."),
    _metric("user_idle_gpus", "idle_gpus", "GPUs that somebody has and does nothing with."),
)
NODE_STATUS_METRICS = (
    _metric("node_up", lambda node: int(not node.silent), "1, or 0 for a silent node."),
    _metric("node_age_seconds", "age_seconds", "Time since it was last heard."),
    _metric("node_missing_reports", "missing_reports", "Holes in its numbered reports."),
)
NODE_METRICS = (
    _metric("node_failed_collectors", _number_of("failures"), "Subjects that it cannot read."),
    _metric("node_cpu_ratio", _ratio("host.cpu_percent"), "CPU in use."),
    _metric("node_load1", "host.load_1_minute", "Load over one minute."),
    _metric("node_memory_used_bytes", "host.memory_used_bytes", "Memory in use."),
    _metric("node_memory_total_bytes", "host.memory_total_bytes", "Memory there is."),
)
GPU_METRICS = (
    _metric("gpu_memory_used_bytes", "memory_used_bytes", "Memory in use."),
    _metric("gpu_memory_total_bytes", "memory_total_bytes", "Memory there is."),
    _metric("gpu_busy_ratio", _ratio("busy_percent"), "Time in which a kernel ran."),
    _metric("gpu_memory_busy_ratio", _ratio("memory_busy_percent"), "Time in which memory moved."),
    _metric("gpu_temperature_celsius", "temperature_celsius", "Temperature."),
    _metric("gpu_fan_ratio", _ratio("fan_percent"), "Speed of its fans."),
    _metric("gpu_power_watts", "power_watts", "Power drawn."),
    _metric("gpu_power_limit_watts", "power_limit_watts", "Power allowed."),
    _metric("gpu_sm_clock_hertz", _scaled("sm_clock_mhz", _MEGA), "Clock of its cores."),
    _metric("gpu_memory_clock_hertz", _scaled("memory_clock_mhz", _MEGA), "Clock of its memory."),
    _metric("gpu_throttle_reasons", _number_of("throttle_reasons"), "Things that slow it now."),
    _metric("gpu_ecc_corrected_total", "ecc_corrected", "Memory errors that were corrected."),
    _metric("gpu_ecc_uncorrected_total", "ecc_uncorrected", "Memory errors that were not."),
    _metric("gpu_processes", _processes, "Processes on it."),
    _metric("gpu_users", _users, "People on it who can be seen."),
    _metric("gpu_idle_seconds", "verdict.idle_seconds", "Time its processes have done nothing."),
)
INSTANCE_METRICS = (
    _metric("mig_memory_used_bytes", "memory_used_bytes", "Memory in use."),
    _metric("mig_memory_total_bytes", "memory_total_bytes", "Memory there is."),
    _metric("mig_busy_ratio", _ratio("busy_percent"), "Time in which a kernel ran."),
)
