"""CSV encoding of history: heat strips and usage reports."""

from collections.abc import Iterator

from fleet_smi.model.history import Strips, Sums
from fleet_smi.model.usage_report import UsageReport
from fleet_smi.wire.csv import CsvValue, encode_csv

_RUN_COLUMNS = (
    "node",
    "node_id",
    "index",
    "uuid",
    "parent_uuid",
    "model",
    "start_epoch_seconds",
    "end_epoch_seconds",
    "state",
    "user",
    "others",
    "busy_percent",
)


def strips_csv(strips: Strips) -> str:
    """Encode heat strips, one row per run: the state of a GPU from start to end."""
    return encode_csv([_RUN_COLUMNS, *_runs(strips)])


def _runs(strips: Strips) -> Iterator[tuple[CsvValue, ...]]:
    for row in strips.rows:
        gpu = row.gpu
        device = (gpu.node, gpu.node_id, gpu.index, gpu.uuid, gpu.parent, gpu.model)
        for run in row.runs:
            user = run.user or None
            yield (*device, run.start, run.end, run.state, user, run.others, run.busy_percent)


def usage_report_csv(report: UsageReport) -> str:
    """Encode a usage report, one row per group; with a cost column where it has a price."""
    usages = report.usages
    header = (usages.by, *Sums.__struct_fields__, *(("cost",) if report.price else ()))
    return encode_csv([header, *(_sums(report, row.name, row.sums) for row in usages.rows)])


def _sums(report: UsageReport, name: str, sums: Sums) -> tuple[CsvValue, ...]:
    figures = [getattr(sums, field) for field in Sums.__struct_fields__]
    return (name, *figures, *((report.cost(sums),) if report.price else ()))
