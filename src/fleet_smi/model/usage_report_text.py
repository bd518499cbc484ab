"""Formatting of the figures of a usage report."""

from collections.abc import Callable, Iterator
from datetime import datetime

from fleet_smi.model.history import Job, Sums
from fleet_smi.model.units import format_elapsed
from fleet_smi.model.usage_report import HOUR_SECONDS, UsageReport, kilowatt_hours

TOO_MANY_JOBS = "Idle jobs: too many to list; choose a shorter range."
_PLURAL = {"user": "people", "group": "groups", "node": "nodes", "model": "models", "gpu": "GPUs"}
_MAX_PLACES = 2
_SINGULAR = {"user": "person", "group": "group", "node": "node", "model": "model", "gpu": "GPU"}


def format_hours(seconds: float) -> str:
    """Format seconds as hours, without a unit: "0", "0.4", "12", "2,425"."""
    count = seconds / HOUR_SECONDS
    # From 9.95 on, one decimal would round to "10.0".
    return f"{count:.1f}" if 0 < count < 9.95 else f"{count:,.0f}"


def format_energy(sums: Sums) -> str:
    """Format the energy of these sums: "1,014.2 kWh"."""
    return f"{kilowatt_hours(sums):,.1f} kWh"


def format_cost(report: UsageReport, sums: Sums) -> str:
    """Format the cost of the energy of these sums: "304.26 EUR"; empty without a price."""
    cost = report.cost(sums)
    if cost is None or report.price is None:
        return ""
    return f"{cost:,.2f} {report.price.currency}".rstrip()


def format_coverage(report: UsageReport) -> str:
    """Format the share of the GPU-time in which nodes reported: "all", "97.5 %"; empty if unknown.

    Anything less than all is at most "99.9 %".
    """
    if report.heard is None:
        return ""
    return "all" if report.heard >= 1 else f"{min(99.9, 100 * report.heard):.1f} %"


def range_notes(
    report: UsageReport, now: float, to_local_time: Callable[[float], datetime]
) -> Iterator[str]:
    """Yield what is missing from the figures of a report, and why."""
    usages = report.usages
    if usages.history_begins is not None:
        begins = to_local_time(usages.history_begins)
        yield f"the history begins at {begins:%Y-%m-%d %H:%M}: nothing before that is counted"
    for gap in report.gaps:
        # Only the part within the range: a damaged file is a gap from the beginning of time.
        end = min(now, usages.end) if gap.end is None else min(gap.end, usages.end)
        seconds = end - max(gap.start, usages.start)
        # One without a length only says what happened.
        is_event = seconds <= 0
        yield (
            gap.why
            if is_event
            else (f"no history was recorded for {format_elapsed(seconds)}: {gap.why}")
        )
    if usages.unwritten is not None:
        since = to_local_time(usages.unwritten.start)
        yield f"the figures are old: nothing after {since:%H:%M:%S} is counted yet: " + (
            usages.unwritten.why
        )


def group_label(by: str) -> str:
    """Return the noun for what a report is grouped by: "person", "node"."""
    return _SINGULAR[by]


def format_count(count: int, by: str) -> str:
    """Format a count with its noun: "1 person", "21 people", "3 nodes"."""
    return f"1 {_SINGULAR[by]}" if count == 1 else f"{count} {_PLURAL[by]}"


def describe_usage(sums: Sums) -> str:
    """Describe the usage of one GPU: "12 h in use, 0.4 h worked", or "not used"."""
    if not sums.gpu_seconds:
        return "not used"
    if not sums.measured_seconds:
        return f"{format_hours(sums.gpu_seconds)} h in use, load unknown"
    return f"{format_hours(sums.gpu_seconds)} h in use, {format_hours(sums.busy_seconds)} h worked"


def describe_advice(job: Job) -> tuple[str, ...]:
    """Return the advice on a job, the first one with its GPUs: "never used the GPU (gpu01:0)".

    A job without advice has its number of GPUs instead: "2 GPUs (gpu01:0, gpu01:1)".
    """
    first, *more = job.advice or (format_count(job.gpus, "gpu"),)
    return f"{first} ({_where(job.places)})" if job.places else first, *more


def _where(places: tuple[str, ...]) -> str:
    others = len(places) - _MAX_PLACES
    return ", ".join(places[:_MAX_PLACES]) + (f" and {others} more" if others > 0 else "")
