"""Privacy of command lines in history: masked like those of live processes."""

from collections.abc import Iterable

from msgspec.structs import replace

from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.history import GpuOccupancies, GpuPeriods, Holder, Job, JobPart, Occupancy
from fleet_smi.model.script_name import script_command


def mask_period_commands(
    rows: Iterable[GpuPeriods], visibility: CommandVisibility
) -> tuple[GpuPeriods, ...]:
    """Return the periods with command lines masked as `visibility` says."""
    if visibility == "full":
        return tuple(rows)
    return tuple(
        replace(
            row,
            periods=tuple(
                replace(
                    period, holders=tuple(_holder(holder, visibility) for holder in period.holders)
                )
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
    """Return the occupancies with command lines masked as `visibility` says."""
    if visibility == "full":
        return tuple(rows)
    return tuple(
        replace(row, occupancies=tuple(_occupancy(entry, visibility) for entry in row.occupancies))
        for row in rows
    )


def mask_job_commands(job: Job, visibility: CommandVisibility) -> Job:
    """Return the job with its command line, its script, its program name, or neither."""
    if visibility == "full":
        return job
    parts = tuple(_part(part, visibility) for part in job.parts)
    script = _script(job.command, visibility)
    # The parts have been masked already, so this is no name where names are hidden. In a list,
    # jobs have no parts.
    name = parts[0].occupancy.holder.name if parts else None
    return replace(job, command=script or name, parts=parts)


def _part(part: JobPart, commands: CommandVisibility) -> JobPart:
    return replace(part, occupancy=_occupancy(part.occupancy, commands))


def _occupancy(occupancy: Occupancy, commands: CommandVisibility) -> Occupancy:
    return replace(occupancy, holder=_holder(occupancy.holder, commands))


def _holder(holder: Holder, commands: CommandVisibility) -> Holder:
    name = None if commands == "hidden" else holder.name
    return replace(holder, command=_script(holder.command, commands), name=name)


def _script(command: str | None, commands: CommandVisibility) -> str | None:
    return script_command(command) if command and commands == "script" else None
