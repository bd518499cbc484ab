"""CSV encoding of history: heat strips and usage reports."""

from collections.abc import Iterator
from datetime import datetime, timezone

from fleet_smi.model.history import Strips, Sums, Usage
from fleet_smi.model.usage_report import UsageReport, kilowatt_hours
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
_REPORT_COLUMNS = ("from", "until", "gpu_hours", "busy_hours", "idle_hours", "energy_kwh")


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
    """Encode a usage report, one row per group; with cost and currency where it has a price.

    Hours, kilowatt-hours and times are for people and spreadsheets; the exact figures follow.
    """
    price = ("cost", "currency") if report.price else ()
    header = (report.usages.by, *_REPORT_COLUMNS, *price, *Sums.__struct_fields__)
    return encode_csv([header, *(_sums(report, row) for row in report.usages.rows)])


def _sums(report: UsageReport, row: Usage) -> tuple[CsvValue, ...]:
    usages, sums = report.usages, row.sums
    hours = (sums.gpu_seconds, sums.busy_seconds, sums.idle_seconds)
    cost, price = report.cost(sums), report.price
    return (
        row.name,
        _utc(usages.start),
        _utc(usages.end),
        *(round(seconds / 3600, 2) for seconds in hours),
        round(kilowatt_hours(sums), 3),
        *(() if cost is None or price is None else (round(cost, 2), price.currency)),
        *(getattr(sums, field) for field in Sums.__struct_fields__),
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
