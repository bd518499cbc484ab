"""What of the command lines of the past is told: as much as of those of now."""

from collections.abc import Iterable

from msgspec.structs import replace

from fleet_smi.model.history import GpuOccupancies, GpuPeriods, Holder, Job, JobPart, Occupancy
from fleet_smi.model.privacy import CommandVisibility


def mask_period_commands(
    rows: Iterable[GpuPeriods], visibility: CommandVisibility
) -> tuple[GpuPeriods, ...]:
    """How GPUs stood, with as much of the command lines as may be seen."""
    if visibility == "full":
        return tuple(rows)
    return tuple(
        replace(
            row,
            periods=tuple(
                replace(period, holders=tuple(_holder(one, visibility) for one in period.holders))
                if period.holders
                else period
                for period in row.periods
            ),
        )
        for row in rows
    )


def mask_occupancy_commands(
    rows: Iterable[GpuOccupancies], visibility: CommandVisibility
) -> tuple[GpuOccupancies, ...]:
    """Who was on GPUs, with as much of the command lines as may be seen."""
    if visibility == "full":
        return tuple(rows)
    return tuple(
        replace(row, occupancies=tuple(_occupancy(one, visibility) for one in row.occupancies))
        for row in rows
    )


def mask_job_commands(job: Job, visibility: CommandVisibility) -> Job:
    """A job with its command line, the name of its program, or neither."""
    if visibility == "full":
        return job
    parts = tuple(_part(part, visibility) for part in job.parts)
    name = parts[0].occupancy.holder.name if parts else None
    return replace(job, command=name, parts=parts)


def _part(part: JobPart, commands: CommandVisibility) -> JobPart:
    return replace(part, occupancy=_occupancy(part.occupancy, commands))


def _occupancy(occupancy: Occupancy, commands: CommandVisibility) -> Occupancy:
    return replace(occupancy, holder=_holder(occupancy.holder, commands))


def _holder(holder: Holder, commands: CommandVisibility) -> Holder:
    name = holder.name if commands == "name" else None
    return replace(holder, command=None, name=name)
