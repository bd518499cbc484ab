"""The metric registry: complete, without duplicates, and what others derive from it."""

from typing import get_args

from msgspec.structs import fields

from fleet_smi.model.figures import GPU_FIGURES, NODE_FIGURES, RECORDED_GPU_FIGURES
from fleet_smi.model.snapshot import Gpu, Host
from fleet_smi.model.stream_payload import DeviceFigures, NodeFigures
from fleet_smi.terminal.view.gpu_cells import TABLE_COLUMNS
from fleet_smi.terminal.view.gpu_table import DEFAULT_COLUMNS, OPTIONAL_COLUMNS
from fleet_smi.wire.fleet_csv import COLUMNS
from fleet_smi.wire.prometheus import GPU_METRICS, INSTANCE_METRICS, NODE_METRICS


def test_every_figure_of_a_gpu_has_one_row() -> None:
    # Its place among the GPUs, and how many processes are not listed, are no readings.
    others = {"index", "more_processes"}
    numeric = [
        field.name
        for field in fields(Gpu)
        if {field.type, *get_args(field.type)} & {int, float} and field.name not in others
    ]
    assert sorted(figure.field for figure in GPU_FIGURES) == sorted(numeric)


def test_every_node_figure_but_the_computed_one_is_a_field_of_the_host() -> None:
    computed = {figure.field for figure in NODE_FIGURES} - set(Host.__struct_fields__)
    assert computed == {"memory_percent"}


def test_no_name_is_used_twice_and_every_metric_has_a_help_text() -> None:
    for figures in (GPU_FIGURES, NODE_FIGURES):
        names = [figure.prometheus for figure in figures if figure.prometheus]
        assert len(set(names)) == len(names)
        assert all(figure.help for figure in figures if figure.prometheus)
    headings = [figure.table for figure in GPU_FIGURES if figure.table]
    assert len(set(headings)) == len(headings)


def test_a_unit_is_part_of_the_name_of_its_field_and_metric() -> None:
    endings = {"percent": "_ratio", "megahertz": "_hertz", "celsius": "_celsius", "watts": "_watts"}
    for figure in (*GPU_FIGURES, *NODE_FIGURES):
        if figure.prometheus and figure.unit in endings:
            assert figure.prometheus.endswith(endings[figure.unit])
        if figure.history == "counter" and figure.prometheus:
            assert figure.prometheus.endswith("_total")


def test_a_row_is_all_it_takes_to_publish_a_figure() -> None:
    metrics = {metric.name for metric in (*GPU_METRICS, *NODE_METRICS)}
    for figure in GPU_FIGURES:
        assert figure.field in COLUMNS
        assert figure.prometheus is None or f"fleet_smi_gpu_{figure.prometheus}" in metrics
        if figure.table is not None:
            assert figure.table in TABLE_COLUMNS
            assert figure.table in (*DEFAULT_COLUMNS, *OPTIONAL_COLUMNS)
    assert {metric.name for metric in INSTANCE_METRICS} == {
        "fleet_smi_mig_memory_used_bytes",
        "fleet_smi_mig_memory_total_bytes",
        "fleet_smi_mig_busy_ratio",
    }


def test_video_engines_memory_temperature_and_energy_are_recorded() -> None:
    recorded = {figure.field: figure.history for figure in RECORDED_GPU_FIGURES}
    assert recorded["encoder_percent"] == recorded["decoder_percent"] == "mean"
    assert recorded["memory_temperature_celsius"] == "gauge"
    assert recorded["energy_joules"] == "counter"


def test_the_stream_carries_the_figures_that_are_marked_for_it() -> None:
    def streamed(name: str) -> str:
        return name.replace("_bytes", "_mebibytes")

    of_gpu = {streamed(figure.field) for figure in GPU_FIGURES if figure.stream}
    assert of_gpu == set(DeviceFigures.__struct_fields__)
    of_node = {figure.field for figure in NODE_FIGURES if figure.stream}
    assert of_node == set(NodeFigures.__struct_fields__) - {"number", "reported_at", "parts"}
