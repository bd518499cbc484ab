"""Responses of the history API: rows over a range, and the state of the record itself."""

from msgspec import Struct

from fleet_smi.model.history import Gap, GpuOccupancies, GpuPeriods, Job


class Periods(Struct, frozen=True, kw_only=True):
    """The periods of every GPU over a range; one whose node was silent throughout has no row."""

    start: float
    end: float
    rows: tuple[GpuPeriods, ...]


class Occupancies(Struct, frozen=True, kw_only=True):
    """The processes on every GPU over a range."""

    start: float
    end: float
    rows: tuple[GpuOccupancies, ...]


class Jobs(Struct, frozen=True, kw_only=True):
    """The jobs of a range, the latest first."""

    start: float
    end: float
    rows: tuple[Job, ...]


class GrainRetention(Struct, frozen=True, kw_only=True):
    """How long figures of one grain are kept."""

    grain_seconds: int
    keep_seconds: float


class StorageStatus(Struct, frozen=True, kw_only=True):
    """How much of the past is stored, how much disk it takes, and what is missing.

    `oldest` is the start of the record; `None` before the first report. `trouble` says why
    nothing can be written now. `energy_price` is the price of a kilowatt-hour, where it is set.
    """

    oldest: float | None
    used_bytes: int
    most_bytes: int
    grains: tuple[GrainRetention, ...]
    ledger_keep_seconds: float
    gaps: tuple[Gap, ...] = ()
    trouble: str | None = None
    energy_price: float | None = None
    currency: str | None = None
