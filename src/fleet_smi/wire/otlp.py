"""OpenTelemetry metrics (OTLP): the families of `wire/prometheus.py` as protobuf messages.

A node is a resource (`host.name`, `host.id`), so is the hub. Metrics that the semantic conventions
for hardware know have their names (`hw.gpu.utilization`); all others keep their own with a dot
(`fleet_smi.gpu.state`). The labels of a GPU become `hw.*` attributes. A series that ends gets a
point without a value, as its staleness marker.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from fleet_smi import __version__
from fleet_smi.wire import prometheus
from fleet_smi.wire.prometheus import MAX_VALUE, Family
from fleet_smi.wire.remote_write import Message, parse_labels

_PREFIX = "fleet_smi_"
_SCOPE = "fleet-smi"
_NODE_LABELS = {"node": "host.name", "node_id": "host.id", "site": "fleet_smi.site"}
_GPU_LABELS = {"uuid": "hw.id", "model": "hw.model", "gpu": "hw.name"}
_INSTANCE_LABELS = {"mig_uuid": "hw.id", "uuid": "hw.parent", "gpu": "hw.name", "model": "hw.model"}
# Ends of names that are units; OpenTelemetry has those apart from the name.
_UNITS = {
    "_bytes": "By",
    "_celsius": "Cel",
    "_hertz": "Hz",
    "_joules": "J",
    "_ratio": "1",
    "_seconds": "s",
    "_watts": "W",
}
Kind = Literal["gauge", "counter", "up_down_counter"]


class Instrument(NamedTuple):
    """A metric as OpenTelemetry describes it, and the attributes that tell one of its points."""

    name: str
    unit: str
    kind: Kind = "gauge"
    attributes: Mapping[str, str] = {}


def _error(kind: str) -> Instrument:
    return Instrument("hw.errors", "{error}", "counter", {"error.type": kind})


def _task(name: str) -> Instrument:
    return Instrument("hw.gpu.utilization", "1", "gauge", {"hw.gpu.task": name})


def _sensor(location: str) -> Instrument:
    return Instrument("hw.temperature", "Cel", "gauge", {"hw.sensor_location": location})


CONVENTIONS: dict[str, Instrument] = {
    "gpu_busy_ratio": _task("general"),
    "gpu_encoder_ratio": _task("encoder"),
    "gpu_decoder_ratio": _task("decoder"),
    "gpu_memory_used_bytes": Instrument("hw.gpu.memory.usage", "By", "up_down_counter"),
    "gpu_memory_total_bytes": Instrument("hw.gpu.memory.limit", "By", "up_down_counter"),
    "gpu_temperature_celsius": _sensor("gpu"),
    "gpu_memory_temperature_celsius": _sensor("memory"),
    "gpu_fan_ratio": Instrument("hw.fan.speed_ratio", "1"),
    "gpu_power_watts": Instrument("hw.power", "W"),
    "gpu_energy_joules_total": Instrument("hw.energy", "J", "counter"),
    "gpu_ecc_corrected_total": _error("corrected"),
    "gpu_ecc_uncorrected_total": _error("uncorrected"),
    "mig_busy_ratio": _task("general"),
    "mig_memory_used_bytes": Instrument("hw.gpu.memory.usage", "By", "up_down_counter"),
    "mig_memory_total_bytes": Instrument("hw.gpu.memory.limit", "By", "up_down_counter"),
    "node_cpu_ratio": Instrument("system.cpu.utilization", "1"),
    "node_memory_used_bytes": Instrument(
        "system.memory.usage", "By", "up_down_counter", {"system.memory.state": "used"}
    ),
    "node_memory_total_bytes": Instrument("system.memory.limit", "By", "up_down_counter"),
}
"""The metrics for which the semantic conventions have a name, by ours without its prefix."""


class _Series:
    """The points of one set of labels: where they belong, and which metrics were sent."""

    __slots__ = ("attributes", "node_id", "sent", "sent_before")

    def __init__(self, text: str) -> None:
        labels = parse_labels(text)
        self.node_id = labels.get("node_id", "")
        self.attributes = [_key_value(*pair) for pair in _attributes(labels).items()]
        self.sent = self.sent_before = 0


class OtlpEncoder:
    """Encodes the samples of one fleet, round by round; `attributes` are added to resources."""

    def __init__(self, attributes: Mapping[str, str] | None = None) -> None:
        self._extra = dict(attributes or {})
        self._numbers: dict[str, int] = {}
        self._instruments: list[Instrument] = []
        self._series: dict[str, _Series] = {}
        self._texts_by_node: dict[str, list[str]] = {}
        self._resources: dict[str, dict[str, str]] = {}

    def encode(
        self, families: Iterable[Family], node_ids: Iterable[str], at: float
    ) -> list[Message]:
        """Encode the samples of these nodes as one message; the id of the whole fleet is ""."""
        request = _Request(at)
        for metric, subjects in families:
            number, read = self._number(metric), metric.read
            instrument, bit = self._instruments[number], 1 << number
            for text, subject in subjects:
                value = read(subject)
                if value is None or not -MAX_VALUE < value < MAX_VALUE:
                    continue
                series = self._find_series(text)
                series.sent |= bit
                point = request.point(self._resources[series.node_id], series.node_id, instrument)
                point.attributes.extend(series.attributes)
                if isinstance(value, int):
                    point.as_int = value
                else:
                    point.as_double = value
        for node_id in node_ids:
            self._end_series(request, node_id)
        return request.finish()

    def end_round(self, node_ids: Iterable[str], at: float) -> list[Message]:
        """End the series of all nodes but these, which are those of the round."""
        request = _Request(at)
        for node_id in self._texts_by_node.keys() - set(node_ids) - {""}:
            self._end_series(request, node_id)
            self._resources.pop(node_id, None)
        return request.finish()

    def _end_series(self, request: "_Request", node_id: str) -> None:
        """Mark the series that had a point in the last round and have none in this one."""
        kept = []
        for text in self._texts_by_node.get(node_id, ()):
            series = self._series[text]
            ended = series.sent_before & ~series.sent
            for number in _bits(ended):
                instrument = self._instruments[number]
                point = request.point(self._resources[node_id], node_id, instrument)
                point.attributes.extend(series.attributes)
                point.flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
            if series.sent:
                kept.append(text)
            else:
                del self._series[text]
            series.sent_before, series.sent = series.sent, 0
        if kept:
            self._texts_by_node[node_id] = kept
        else:
            self._texts_by_node.pop(node_id, None)

    def _number(self, metric: prometheus.Metric) -> int:
        number = self._numbers.setdefault(metric.name, len(self._instruments))
        if number == len(self._instruments):
            self._instruments.append(instrument_of(metric.name))
        return number

    def _find_series(self, text: str) -> _Series:
        series = self._series.get(text)
        if series is None:
            series = self._series[text] = _Series(text)
            self._texts_by_node.setdefault(series.node_id, []).append(text)
            resource = _resource(parse_labels(text))
            self._resources[series.node_id] = {**resource, **self._extra}
        return series


class _Request:
    """Builds one message; a metric that a resource has already gets further points."""

    def __init__(self, at: float) -> None:
        self._time = round(at * 1e9)
        self._request = ExportMetricsServiceRequest()
        self._scopes: dict[str, ScopeMetrics] = {}
        self._metrics: dict[tuple[str, str], Metric] = {}
        self._points = 0

    def point(
        self, resource: Mapping[str, str], node_id: str, instrument: Instrument
    ) -> NumberDataPoint:
        """Add a point of this time, with the attributes of the instrument."""
        metric = self._metrics.get((node_id, instrument.name))
        if metric is None:
            scope = self._scopes.get(node_id)
            if scope is None:
                scope = self._scopes[node_id] = self._add_resource(resource)
            metric = self._metrics[node_id, instrument.name] = _add_metric(scope, instrument)
        points = metric.gauge if instrument.kind == "gauge" else metric.sum
        point: NumberDataPoint = points.data_points.add(time_unix_nano=self._time)
        for pair in instrument.attributes.items():
            point.attributes.append(_key_value(*pair))
        self._points += 1
        return point

    def finish(self) -> list[Message]:
        """Return the message; none without points."""
        return [Message(self._request.SerializeToString(), self._points)] if self._points else []

    def _add_resource(self, attributes: Mapping[str, str]) -> ScopeMetrics:
        added: ResourceMetrics = self._request.resource_metrics.add()
        added.resource.attributes.extend([_key_value(*pair) for pair in attributes.items()])
        scope: ScopeMetrics = added.scope_metrics.add()
        scope.scope.name, scope.scope.version = _SCOPE, __version__
        return scope


def instrument_of(name: str) -> Instrument:
    """Return how a metric of `wire/prometheus.py` is called in OpenTelemetry."""
    short = name.removeprefix(_PREFIX)
    if short in CONVENTIONS:
        return CONVENTIONS[short]
    base = short.removesuffix("_total")
    ending = next((each for each in _UNITS if base.endswith(each)), "")
    group, _, rest = base.removesuffix(ending).partition("_")
    return Instrument(
        ".".join(filter(None, ("fleet_smi", group, rest))),
        _UNITS.get(ending, "1"),
        "counter" if short.endswith("_total") else "gauge",
    )


def rejected_points(answer: bytes) -> tuple[int, str]:
    """Read from the answer of a receiver how many points it has refused, and why."""
    try:
        partial = ExportMetricsServiceResponse.FromString(answer).partial_success
    except DecodeError:  # an answer that is none: it was accepted all the same
        return 0, ""
    return partial.rejected_data_points, partial.error_message


def _add_metric(scope: ScopeMetrics, instrument: Instrument) -> Metric:
    metric: Metric = scope.metrics.add(name=instrument.name, unit=instrument.unit)
    if instrument.kind != "gauge":
        metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
        metric.sum.is_monotonic = instrument.kind == "counter"
    return metric


def _resource(labels: Mapping[str, str]) -> dict[str, str]:
    """The attributes of what a series belongs to: a node, or the hub itself."""
    node = {_NODE_LABELS[name]: text for name, text in labels.items() if name in _NODE_LABELS}
    instance = {"service.instance.id": node.get("host.id", "hub")}
    return {"service.name": _SCOPE, "service.version": __version__, **instance, **node}


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a point: what its labels say beside the node."""
    names = _INSTANCE_LABELS if "mig_uuid" in labels else _GPU_LABELS
    own = {name: text for name, text in labels.items() if name not in _NODE_LABELS}
    found = {names.get(name, name): text for name, text in own.items()}
    return found | ({"hw.type": "gpu"} if "hw.id" in found else {})


def _key_value(key: str, text: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=text))


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
