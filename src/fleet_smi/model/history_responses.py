"""What is told of the past: rows over a range, and how much of it is kept at all."""

from msgspec import Struct

from fleet_smi.model.history import Gap, GpuOccupancies, GpuPeriods, Job


class Periods(Struct, frozen=True, kw_only=True):
    """How every GPU stood over a range; one that was not heard in it has no row."""

    start: float
    end: float
    rows: tuple[GpuPeriods, ...]


class Occupancies(Struct, frozen=True, kw_only=True):
    """Who was on which GPU over a range."""

    start: float
    end: float
    rows: tuple[GpuOccupancies, ...]


class Jobs(Struct, frozen=True, kw_only=True):
    """The jobs of a range, the latest first."""

    start: float
    end: float
    rows: tuple[Job, ...]


class GrainKept(Struct, frozen=True, kw_only=True):
    """Figures this far apart are kept this long."""

    grain_seconds: int
    keep_seconds: float


class Kept(Struct, frozen=True, kw_only=True):
    """How much of the past is kept, what it takes on the disk, and what is missing of it.

    Before `oldest` nothing is known; it is `None` as long as nothing was heard. `trouble` is
    why nothing can be written now. A kilowatt hour costs `energy_price`, where that was set.
    """

    oldest: float | None
    used_bytes: int
    most_bytes: int
    grains: tuple[GrainKept, ...]
    ledger_keep_seconds: float
    gaps: tuple[Gap, ...] = ()
    trouble: str | None = None
    energy_price: float | None = None
    currency: str | None = None
