"""Joins of occupancies: a process in late reports continues what was recorded around their gap.

The struct is part of a node's checkpoint: a new field must come last, with a default.
"""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.hub.history.recording.intervals import Occupant
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.series_row import GpuKey

# The times of a report that is sent twice differ slightly.
TOLERANCE_SECONDS = 1.0
MAX_ENDED = 64


class EndedOccupant(Struct, array_like=True):
    """An occupancy that has been written, and that late reports may show to be longer."""

    uuid: str
    occupant: Occupant
    end: float


def join_occupant(
    gpu_key: GpuKey,
    late: EndedOccupant,
    running: Iterable[Occupant],
    ended: list[EndedOccupant],
    batch: WriteBatch,
) -> bool:
    """Join a late occupant with the same process before and after it; false where there is none.

    The rows of joined occupancies that begin at another time are removed.
    """
    parts = [other for other in ended if other.uuid == late.uuid and _touches(other, late)]
    open_ones = [occupant for occupant in running if _continues(occupant, late)]
    if not parts and not open_ones:
        return False
    late.occupant.pause(late.end)
    for part in parts:
        ended.remove(part)
    parts.append(late)
    start = min([part.occupant.start for part in parts])
    if open_ones:
        main = open_ones[0]
        for part in parts:
            _merge(gpu_key, main, part.occupant, batch)
        if start < main.start:
            remove_row(gpu_key, main, batch)
            main.start = start
        return True
    main = parts[0].occupant
    for part in parts[1:]:
        _merge(gpu_key, main, part.occupant, batch)
    if start < main.start:
        remove_row(gpu_key, main, batch)
        main.start = start
    end = max([part.end for part in parts])
    ended.append(EndedOccupant(late.uuid, main, end))
    batch.occupancies.append((gpu_key, main.to_occupancy(end)))
    return True


def _touches(other: EndedOccupant, late: EndedOccupant) -> bool:
    return _continues(other.occupant, late) and (
        other.end >= late.occupant.start - TOLERANCE_SECONDS
    )


def _continues(occupant: Occupant, late: EndedOccupant) -> bool:
    """Whether it is the same process and began before the late one ended, or when it did."""
    is_same = occupant.is_same_process(late.occupant.holder, late.occupant.skew)
    return is_same and occupant.start <= late.end + TOLERANCE_SECONDS


def _merge(gpu_key: GpuKey, main: Occupant, part: Occupant, batch: WriteBatch) -> None:
    main.merge(part)
    if part.start != main.start:
        remove_row(gpu_key, part, batch)


def remove_row(gpu_key: GpuKey, occupant: Occupant, batch: WriteBatch) -> None:
    """Remove the row of an occupancy, from this batch too."""
    batch.remove_occupancies([(gpu_key, occupant.start, occupant.holder.pid)])
