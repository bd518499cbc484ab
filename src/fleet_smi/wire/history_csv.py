"""What happened, for other programs: heat strips and reports as CSV."""

from collections.abc import Iterator

from fleet_smi.model.history import Strips, Sums
from fleet_smi.model.usage_report import UsageReport
from fleet_smi.wire.csv import CsvValue, encode_csv

_RUNS = (
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
    """One row a run of a heat strip: how a GPU stood, from when to when."""
    return encode_csv([_RUNS, *_runs(strips)])


def _runs(strips: Strips) -> Iterator[tuple[CsvValue, ...]]:
    for row in strips.rows:
        gpu = row.gpu
        where = (gpu.node, gpu.node_id, gpu.index, gpu.uuid, gpu.parent, gpu.model)
        for run in row.runs:
            user = run.user or None
            yield (*where, run.start, run.end, run.state, user, run.others, run.busy_percent)


def digest_csv(digest: UsageReport) -> str:
    """One row a user, group, node or model; the cost is there where a price is."""
    usages = digest.usages
    heads = (usages.by, *Sums.__struct_fields__, *(("cost",) if digest.price else ()))
    return encode_csv([heads, *(_sums(digest, row.name, row.sums) for row in usages.rows)])


def _sums(told: UsageReport, name: str, sums: Sums) -> tuple[CsvValue, ...]:
    figures = [getattr(sums, field) for field in Sums.__struct_fields__]
    return (name, *figures, *((told.cost(sums),) if told.price else ()))
