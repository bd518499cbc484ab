"""Tools `job_efficiency` and `usage_history`: how well jobs and people used GPUs, from a hub."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from fleet_smi.errors import UsageError
from fleet_smi.mcp.answers import cut
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import OutsideText, iso_time, outside, quoted, reason
from fleet_smi.model.history import Figure, Job, Series, Sums

_MAX_PLACES, _MAX_DAYS, _MAX_GPUS, _POINTS = 16, 92, 16, 48
_Since = Annotated[str, Meta(max_length=40, description="2h, 7d, yesterday, 2026-11-15T03:12")]
_HOUR, _JOULES_PER_KWH = 3600.0, 3.6e6


class JobArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose jobs, and since when; by default those of the person whose token the server has."""

    user: Annotated[str, Meta(max_length=128)] | None = None
    job: Annotated[str, Meta(max_length=200, description="the id of one job")] | None = None
    since: _Since = "7d"
    limit: Annotated[int, Meta(ge=1, le=50, description="how many, the latest first")] = 10


class UseFigures(Struct, frozen=True, kw_only=True):
    """GPU-hours, the mean load while it was measured, hours held idle, and energy."""

    gpu_hours: float
    load_percent: float | None
    idle_gpu_hours: float
    energy_kwh: float


class JobRow(Struct, frozen=True, kw_only=True):
    """A job: its GPUs and how it used them; without `ended` it still runs."""

    id: OutsideText
    user: OutsideText
    command: OutsideText | None
    started: str | None
    ended: str | None
    gpus: int
    places: tuple[OutsideText, ...]
    use: UseFigures
    advice: tuple[str, ...]


class JobList(Struct, frozen=True, kw_only=True):
    """The latest jobs of a person."""

    jobs: tuple[JobRow, ...]
    more_jobs: int


def job_efficiency(access: FleetAccess, asked: JobArguments) -> tuple[JobList, str]:
    """Return how well jobs used their GPUs, with advice on those that did not."""
    hub = access.require_hub()
    if asked.job is not None:
        jobs: tuple[Job, ...] = (hub.job(asked.job),)
    else:
        jobs = hub.jobs(asked.since, user=asked.user or _me(access)).rows
    rows, more = cut(jobs, asked.limit, _job)
    found = JobList(jobs=rows, more_jobs=more)
    lines = [f"- {quoted(row.id)}: {_describe(row.use)}{_advice(row)}" for row in found.jobs]
    return found, "\n".join(lines) or "No job in that time."


def _me(access: FleetAccess) -> str:
    person = access.person()
    if person is None:
        raise UsageError("the hub does not know who you are: name a user, or `fleet-smi login`")
    return person


def _job(job: Job) -> JobRow:
    return JobRow(
        id=outside(job.id),
        user=outside(job.user),
        command=outside(job.command),
        started=iso_time(job.start),
        ended=iso_time(job.end),
        gpus=job.gpus,
        places=tuple(map(outside, job.places[:_MAX_PLACES])),
        use=_figures(job.sums),
        advice=tuple(map(reason, job.advice)),
    )


def _figures(sums: Sums) -> UseFigures:
    measured = sums.measured_seconds
    return UseFigures(
        gpu_hours=round(sums.gpu_seconds / _HOUR, 2),
        load_percent=round(100 * sums.busy_seconds / measured, 1) if measured else None,
        idle_gpu_hours=round(sums.idle_seconds / _HOUR, 2),
        energy_kwh=round(sums.energy_joules / _JOULES_PER_KWH, 2),
    )


def _describe(use: UseFigures) -> str:
    load = "load not measured" if use.load_percent is None else f"{use.load_percent:g} % busy"
    return f"{use.gpu_hours:g} GPU-hours, {load}, {use.idle_gpu_hours:g} GPU-hours idle"


def _advice(row: JobRow) -> str:
    return f" ({'; '.join(row.advice)})" if row.advice else ""


class TrendArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node or a person, and since when; with neither, the person of the server's token."""

    user: Annotated[str, Meta(max_length=128)] | None = None
    node: Annotated[str, Meta(max_length=128, description="the name of a node")] | None = None
    since: _Since = "7d"
    until: _Since = "now"


class GpuTrend(Struct, frozen=True, kw_only=True):
    """A GPU of a node over the range; what is not measured is null."""

    uuid: OutsideText
    mean_busy_percent: float | None
    mean_power_watts: float | None
    max_temperature_celsius: float | None


class UsageTrend(Struct, frozen=True, kw_only=True):
    """The use of a node or by a person over a range; `daily_gpu_hours` are oldest first."""

    name: OutsideText
    kind: str
    start: str | None
    end: str | None
    use: UseFigures
    daily_gpu_hours: tuple[float, ...]
    gpus: tuple[GpuTrend, ...] = ()


def usage_history(access: FleetAccess, asked: TrendArguments) -> tuple[UsageTrend, str]:
    """Return GPU-hours, load, idle time and energy, in all and per day."""
    hub = access.require_hub()
    if asked.user is not None and asked.node is not None:
        raise UsageError("name a user or a node, not both")
    name, kind = (asked.node, "node") if asked.node else (asked.user or _me(access), "user")
    usages = hub.usages(asked.since, asked.until, by=kind, daily=True)
    rows = [row for row in usages.rows if row.name == name]
    gpus: tuple[GpuTrend, ...] = ()
    if kind == "node":
        series = hub.series(name, asked.since, asked.until, points=_POINTS)
        gpus = tuple(_trends(series))
    found = UsageTrend(
        name=outside(name),
        kind=kind,
        start=iso_time(usages.start),
        end=iso_time(usages.end),
        use=_figures(rows[0].sums if rows else Sums()),
        daily_gpu_hours=tuple(
            [round(seconds / _HOUR, 1) for seconds in (rows[0].daily if rows else ())[-_MAX_DAYS:]]
        ),
        gpus=gpus,
    )
    lines = [f"{kind} {quoted(name)}, {found.start} to {found.end}: {_describe(found.use)}"]
    if not rows:
        lines = [f"Nothing is recorded of {kind} {quoted(name)} in that time."]
    elif found.daily_gpu_hours:
        days = ", ".join(f"{hours:g}" for hours in found.daily_gpu_hours)
        lines.append(f"GPU-hours per day: {days}")
    return found, "\n".join(lines)


def _trends(series: Series) -> Iterable[GpuTrend]:
    for uuid, figures in [*series.gpus.items()][:_MAX_GPUS]:
        yield GpuTrend(
            uuid=outside(uuid),
            mean_busy_percent=_mean(figures.get("busy_percent")),
            mean_power_watts=_mean(figures.get("power_watts")),
            max_temperature_celsius=_maximum(figures.get("temperature_celsius")),
        )


def _mean(figure: Figure | None) -> float | None:
    known = [] if figure is None else [value for value in figure.mean if value is not None]
    return round(sum(known) / len(known), 1) if known else None


def _maximum(figure: Figure | None) -> float | None:
    known = [] if figure is None else [value for value in figure.maximum if value is not None]
    return max(known, default=None)
