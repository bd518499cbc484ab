"""The figures of a report as people read them."""

from fleet_smi.model.history import Job, Sums
from fleet_smi.model.usage_report import HOUR_SECONDS, UsageReport, kilowatt_hours

TOO_MANY_JOBS = "Which jobs were idle: there are too many; ask for a shorter time."
_SEVERAL = {"user": "people", "group": "groups", "node": "nodes", "model": "models", "gpu": "GPUs"}
_PLACES = 2
_ONE = {"user": "person", "group": "group", "node": "node", "model": "model", "gpu": "GPU"}


def format_hours(seconds: float) -> str:
    """Hours without a unit: "0.4", "12", "2,425"."""
    count = seconds / HOUR_SECONDS
    return f"{count:.1f}" if 0 < count < 9.95 else f"{count:,.0f}"


def format_energy(sums: Sums) -> str:
    """The energy of these sums: "1,014.2 kWh"."""
    return f"{kilowatt_hours(sums):,.1f} kWh"


def format_cost(report: UsageReport, sums: Sums) -> str:
    """What that energy costs: "304.26 EUR"; empty where no price is known."""
    cost = report.cost(sums)
    if cost is None or report.price is None:
        return ""
    return f"{cost:,.2f} {report.price.currency}".rstrip()


def format_coverage(report: UsageReport) -> str:
    """How much of the time nodes were heard; what is not quite all is not called all."""
    if report.heard is None:
        return ""
    return "all" if report.heard >= 1 else f"{min(99.9, 100 * report.heard):.1f} %"


def group_label(by: str) -> str:
    """What a report is made by: "person", "node"."""
    return _ONE[by]


def format_count(count: int, by: str) -> str:
    """ "1 person", "21 people", "3 nodes"."""
    return f"1 {_ONE[by]}" if count == 1 else f"{count} {_SEVERAL[by]}"


def describe_usage(sums: Sums) -> str:
    """What became of one GPU: "12 h in use, 0.4 h worked"."""
    if not sums.gpu_seconds:
        return "nobody had it"
    if not sums.measured_seconds:
        return f"{format_hours(sums.gpu_seconds)} h in use, load unknown"
    return f"{format_hours(sums.gpu_seconds)} h in use, {format_hours(sums.busy_seconds)} h worked"


def describe_advice(job: Job) -> tuple[str, ...]:
    """What there is to say of a job, and where it was: "never used the GPU (gpu01:0)"."""
    said, *more = job.advice or (format_count(job.gpus, "gpu"),)
    return f"{said} ({_where(job.places)})" if job.places else said, *more


def _where(places: tuple[str, ...]) -> str:
    others = len(places) - _PLACES
    return ", ".join(places[:_PLACES]) + (f" and {others} more" if others > 0 else "")
