"""The Prometheus encoding, parsed by Prometheus's own client library."""

from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Fault, Host
from fleet_smi.wire.prometheus import OwnMetrics, encode_metrics
from tests import golden
from tests.terminal.samples import (
    busy_gpu,
    fleet,
    gpu,
    lab,
    no_gpu,
    node,
    not_answering,
    process,
    silent,
    sliced,
    verdict,
)

GOLDEN = Path(__file__).parent / "golden"
COUNTS = {"reports_total": 42, "listeners": 3, "something_new": 1}


def text(view: FleetView, counts: dict[str, float] | None = None) -> str:
    return encode_metrics(view, OwnMetrics(counts or {}, {"disk"})).decode()


def samples(view: FleetView, name: str) -> list[Sample]:
    families = text_string_to_metric_families(text(view))
    everything: Iterator[Sample] = (one for family in families for one in family.samples)
    return [one for one in everything if one.name == f"fleet_smi_{name}"]


def values(view: FleetView, name: str) -> list[float]:
    return [sample.value for sample in samples(view, name)]


def test_the_document_of_a_lab_equals_the_golden_file() -> None:
    golden.assert_matches_golden(
        GOLDEN / "metrics.txt", text(fleet(*lab().nodes, sliced()), dict(COUNTS))
    )


def test_every_metric_is_described_once_and_its_samples_are_contiguous() -> None:
    lines = text(fleet(*lab().nodes, sliced()), dict(COUNTS)).splitlines()
    names = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    blocks = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    assert len(blocks) == len(set(blocks))
    assert [line.split(" ")[2] for line in lines if line.startswith("# TYPE")] == blocks


def test_a_gpu_is_labelled_by_node_index_and_uuid() -> None:
    card = busy_gpu(3, process("alice"), uuid="GPU-1", name="NVIDIA H100", power_watts=312.5)
    (sample,) = samples(fleet(node("gpu01", card)), "gpu_power_watts")
    assert sample.value == 312.5
    assert sample.labels == {
        "node": "gpu01",
        "node_id": "id-gpu01",
        "gpu": "3",
        "uuid": "GPU-1",
        "model": "NVIDIA H100",
    }


def test_percent_are_ratios_and_megahertz_hertz() -> None:
    view = fleet(node("gpu01", busy_gpu(0, process("alice"), busy_percent=97.0, sm_clock_mhz=1980)))
    assert values(view, "gpu_busy_ratio") == [0.97]
    assert values(view, "gpu_sm_clock_hertz") == [1_980_000_000]


def test_video_engines_memory_temperature_and_energy_have_samples() -> None:
    fields = {"encoder_percent": 12.0, "decoder_percent": 0.0, "energy_joules": 1.5e9}
    card = gpu(0, verdict("free"), memory_temperature_celsius=71.0, **fields)
    view = fleet(node("n", card))
    assert values(view, "gpu_encoder_ratio") == [0.12]
    assert values(view, "gpu_decoder_ratio") == [0.0]
    assert values(view, "gpu_memory_temperature_celsius") == [71.0]
    assert values(view, "gpu_energy_joules_total") == [1.5e9]
    assert "# TYPE fleet_smi_gpu_energy_joules_total counter" in text(view)


def test_a_slowdown_by_heat_and_one_by_hardware_are_told_apart_from_a_power_cap() -> None:
    reasons = [("sw_power_cap",), ("sw_power_cap", "sw_thermal_slowdown"), ("hw_slowdown",), None]
    cards = [
        gpu(index, verdict("busy"), throttle_reasons=each) for index, each in enumerate(reasons)
    ]
    view = fleet(node("gpu01", *cards))
    assert values(view, "gpu_thermal_slowdown") == [0, 1, 0]
    assert values(view, "gpu_hardware_slowdown") == [0, 0, 1]


def test_faults_pending_resets_versions_and_problems_are_labels_or_ones() -> None:
    lost = gpu(0, verdict("broken"), fault=Fault(kind="lost", detail="fell off the bus"))
    waits = gpu(1, verdict("free"), reset_pending="remapped rows")
    host = Host(driver_version="590.48.01", cuda_version="13.1", kernel="6.8")
    view = fleet(node("gpu01", lost, waits, host=host, agent_version="1.0"))
    (fault,) = samples(view, "gpu_fault")
    assert (fault.labels["fault"], fault.labels["gpu"], fault.value) == ("lost", "0", 1)
    assert [each.labels["gpu"] for each in samples(view, "gpu_reset_pending")] == ["1"]
    (info,) = samples(view, "node_info")
    versions = {"driver": "590.48.01", "cuda": "13.1", "kernel": "6.8", "agent": "1.0"}
    assert versions.items() <= info.labels.items()
    problems = {each.labels["problem"]: each.value for each in samples(view, "hub_problem")}
    assert (problems["disk"], problems["history"]) == (1, 0)


def test_the_state_is_a_label() -> None:
    (sample,) = samples(fleet(node("gpu01", gpu(0, verdict("free")))), "gpu_state")
    assert (sample.labels["state"], sample.value) == ("free", 1)


def test_an_unmeasured_figure_has_no_sample_and_zero_is_zero() -> None:
    view = fleet(node("gpu01", gpu(0, verdict("free"), None, busy_percent=0.0, processes=None)))
    assert values(view, "gpu_memory_used_bytes") == []
    assert values(view, "gpu_processes") == values(view, "gpu_users") == []
    assert values(view, "gpu_busy_ratio") == [0]


@pytest.mark.parametrize("impossible", [nan, inf, -inf])
def test_nan_and_infinity_have_no_sample(impossible: float) -> None:
    view = fleet(node("gpu01", gpu(0, verdict("free"), power_watts=impossible)))
    assert values(view, "gpu_power_watts") == []


def test_a_silent_node_has_no_figures() -> None:
    view = fleet(silent())
    names = {line.split("{")[0] for line in text(view).splitlines() if line[0] != "#"}
    assert {name for name in names if "_gpu_" in name} == {"fleet_smi_gpu_state"}
    assert {sample.labels["state"] for sample in samples(view, "gpu_state")} == {"unknown"}
    assert values(view, "node_up") == [0]
    assert values(view, "node_age_seconds") == [240]
    assert values(view, "node_failed_collectors") == []


def test_a_node_without_gpus_is_up_and_a_failed_collector_counts() -> None:
    view = fleet(no_gpu(), not_answering())
    assert values(view, "node_up") == [1, 1]
    assert values(view, "node_failed_collectors") == [0, 1]


def test_users_are_counted_and_no_process_is_named() -> None:
    mine = process("alice", command="python secret.py", name="secret", pid=987654)
    view = fleet(node("gpu01", busy_gpu(0, mine), busy_gpu(1, mine, process("bob"))))
    owned = {one.labels["user"]: one.value for one in samples(view, "user_gpus")}
    assert owned == {"alice": 2, "bob": 1}
    assert values(view, "gpu_users") == [1, 2]
    assert "secret" not in text(view)
    assert "987654" not in text(view)


def test_mig_instances_have_samples_of_their_own() -> None:
    states = samples(fleet(sliced()), "mig_state")
    assert len(states) == sum(len(gpu.instances) for gpu in sliced().gpus)
    assert all(sample.labels["mig_uuid"] and sample.labels["profile"] for sample in states)


def test_the_hubs_own_metrics_are_included() -> None:
    lines = text(fleet(), dict(COUNTS)).splitlines()
    assert "fleet_smi_hub_reports_total 42" in lines
    assert "# TYPE fleet_smi_hub_reports_total counter" in lines
    assert "# TYPE fleet_smi_hub_listeners gauge" in lines
    assert "fleet_smi_hub_something_new 1" in lines


hostile = st.text(st.sampled_from('ab"\\\n\r\t{}=, #\u2028\x1b\x00é')) | st.text()


@given(hostile, hostile, hostile, hostile)
def test_no_name_breaks_out_of_its_label(name: str, uuid: str, model: str, user: str) -> None:
    card: dict[str, Any] = {"uuid": uuid, "name": model}
    view = fleet(node(name, busy_gpu(0, process(user or "x"), **card), node_id="id"))
    (sample,) = samples(view, "gpu_power_watts")
    assert sample.labels["node"] == sanitize_text(name, 200)
    assert sample.labels["uuid"] == sanitize_text(uuid, 200)
    assert sample.labels["model"] == sanitize_text(model, 200)
    assert values(view, "user_gpus") == [1]
