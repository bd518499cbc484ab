"""OpenTelemetry metrics of a real hub into real receivers, and what the messages say."""

import gzip
import time
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fleet_smi.wire.otlp import CONVENTIONS, Instrument, OtlpEncoder, instrument_of, rejected_points
from fleet_smi.wire.prometheus import node_families
from tests.builders import gpu, snapshot
from tests.hub.metric_export.test_real_receivers import machines
from tests.hub.metric_export.test_sender import ScriptedReceiver
from tests.machines import wait_until
from tests.series_stores import SeriesStore, series_store
from tests.server.threaded_hub import ThreadedHub
from tests.terminal.samples import busy_gpu, node, process, sliced

_SUFFIXES = {"By": "_bytes", "Cel": "_celsius", "J": "_joules", "W": "_watts"}


def prometheus_name(instrument: Instrument) -> str:
    """The name under which a store with the naming of Prometheus has an instrument."""
    name = instrument.name.replace(".", "_") + _SUFFIXES.get(instrument.unit, "")
    if instrument.kind == "counter":
        return f"{name}_total"
    ratio = instrument.unit == "1" and instrument.kind == "gauge"
    return f"{name}_ratio" if ratio and not name.endswith("_ratio") else name


def _is_stored(store: SeriesStore, name: str, labels: dict[str, str]) -> bool:
    return store.value(name, labels) is not None


def published(hub: ThreadedHub) -> list[Sample]:
    text = hub.request("GET", "/metrics").body.decode()
    families = text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples]


def test_a_receiver_has_the_values_of_the_hub_until_a_node_is_gone(tmp_path: Path) -> None:
    gone = snapshot(gpu(), node_id="gone", name="gone", taken_at=time.time())
    with (
        series_store("victoria-metrics", tmp_path / "store", otlp=True) as store,
        ThreadedHub(
            tmp_path / "hub", hub__otlp=store.otlp_url, hub__otlp_interval="0.2s",
            hub__otlp_attributes="deployment.environment.name=lab",
        ) as hub,
    ):  # fmt: skip
        for each in [*machines(time.time()), replace(gone, interval_seconds=60.0)]:
            hub.join_and_report(each)
        exporter = hub.server.exporters["otlp"]
        samples = published(hub)
        enough = exporter.counts()["otlp_samples_total"] + 3 * len(samples)
        wait_until(lambda: exporter.counts()["otlp_samples_total"] > enough)
        compared = 0
        for short, instrument in CONVENTIONS.items():
            attributes = {
                key.replace(".", "_"): text for key, text in instrument.attributes.items()
            }
            for sample in samples:
                if sample.name != f"fleet_smi_{short}":
                    continue
                uuid = sample.labels.get("mig_uuid") or sample.labels.get("uuid")
                labels = attributes | ({} if uuid is None else {"hw_id": uuid})
                labels["host_id"] = sample.labels["node_id"]
                name = prometheus_name(instrument)
                # A series that is new to VictoriaMetrics may take seconds to be found.
                wait_until(partial(_is_stored, store, name, labels))
                found = store.value(name, labels)
                assert f"{found:.14g}" == f"{sample.value:.14g}", (short, labels)
                compared += 1
        assert compared > 200
        temperature = prometheus_name(CONVENTIONS["gpu_temperature_celsius"])
        gpus = len(store.query(temperature))
        admin = hub.token("admin")
        assert hub.request("DELETE", "/api/v1/nodes/gone", token=admin).status == 204
        wait_until(lambda: len(store.query(temperature)) == gpus - 1)


def test_requests_have_resources_headers_and_credentials_and_a_refusal_is_shown(
    tmp_path: Path,
) -> None:
    receiver = ScriptedReceiver(503, 500, 204)
    with ThreadedHub(
        tmp_path / "hub", hub__otlp=receiver.url, hub__otlp_interval="0.1s",
        hub__otlp_attributes="deployment.environment.name=lab",
        hub__otlp_token="s3cret", hub__otlp_header="api-key",
    ) as hub:  # fmt: skip
        hub.join_and_report(snapshot(gpu(), node_id="a", name="gpu01", taken_at=time.time()))
        exporter = hub.server.exporters["otlp"]
        # The first is sent again; the second is not, as the specification demands.
        wait_until(lambda: exporter.counts()["otlp_samples_total"] > 0)
        assert exporter.counts()["otlp_dropped_samples_total"] > 0
        assert "answered 500: because" in str(exporter.error)
        wait_until(lambda: "otlp" in hub.server.problems.current_kinds())
        wait_until(lambda: any(b"gpu01" in gzip.decompress(body) for body, _ in receiver.requests))
    receiver.close()
    bodies = [gzip.decompress(body) for body, _ in receiver.requests]
    assert bodies[0] == bodies[1]
    _, headers = receiver.requests[0]
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["Content-Encoding"] == "gzip"
    assert headers["api-key"] == "s3cret"
    requests = map(ExportMetricsServiceRequest.FromString, bodies)
    resources = [
        {pair.key: pair.value.string_value for pair in each.resource.attributes}
        for request in requests
        for each in request.resource_metrics
    ]
    (host,) = {tuple(sorted(each.items())) for each in resources if "host.id" in each}
    assert dict(host) == {
        "deployment.environment.name": "lab",
        "host.id": "a",
        "host.name": "gpu01",
        "service.instance.id": "a",
        "service.name": "fleet-smi",
        "service.version": dict(host)["service.version"],
    }


def test_a_gpu_and_an_instance_have_the_attributes_of_the_conventions() -> None:
    card = busy_gpu(3, process("alice"), uuid="GPU-1", name="NVIDIA H100", busy_percent=97.0)
    (message,) = OtlpEncoder().encode(node_families([node("gpu01", card), sliced()]), [], 1.5)
    request = ExportMetricsServiceRequest.FromString(message.body)
    points = {}
    for resource in request.resource_metrics:
        for metric in resource.scope_metrics[0].metrics:
            for point in (metric.gauge if metric.HasField("gauge") else metric.sum).data_points:
                pairs = {pair.key: pair.value.string_value for pair in point.attributes}
                points[metric.name, pairs.get("hw.id"), pairs.get("hw.gpu.task")] = point, pairs
    point, attributes = points["hw.gpu.utilization", "GPU-1", "general"]
    assert (point.as_double, point.time_unix_nano) == (0.97, 1_500_000_000)
    assert attributes == {
        "hw.id": "GPU-1",
        "hw.type": "gpu",
        "hw.name": "3",
        "hw.model": "NVIDIA H100",
        "hw.gpu.task": "general",
    }
    parents = {each["hw.parent"] for _, each in points.values() if "hw.parent" in each}
    assert len(parents) == 1
    assert points["fleet_smi.gpu.state", "GPU-1", None][1]["state"] == "busy"


@pytest.mark.parametrize(
    ("name", "instrument"),
    [
        ("fleet_smi_gpus", Instrument("fleet_smi.gpus", "1")),
        ("fleet_smi_gpu_sm_clock_hertz", Instrument("fleet_smi.gpu.sm_clock", "Hz")),
        ("fleet_smi_hub_reports_total", Instrument("fleet_smi.hub.reports", "1", "counter")),
    ],
)
def test_a_metric_without_a_convention_keeps_its_name(name: str, instrument: Instrument) -> None:
    assert instrument_of(name) == instrument


def test_points_that_a_receiver_refuses_are_counted() -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    answer = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    assert rejected_points(answer) == (3, "too old")
    assert rejected_points(b"") == (0, "")
    assert rejected_points(b"<html>not protobuf") == (0, "")
