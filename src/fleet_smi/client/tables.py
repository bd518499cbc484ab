"""Answers about the past as tables: plain structs that become data frames on demand.

A frame has the structs' own names, times in seconds since 1970 and unknown as missing; it is
one of pandas, or of polars where only that is installed or it is named.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from fleet_smi.client.dataframes import DataFrameLibrary, to_dataframe
from fleet_smi.model.history import Figure, GpuOfNode, Job, Period, Series, Sums, Usages
from fleet_smi.model.history_responses import Jobs, Periods

_GPU = ("node", "index", "uuid", "model")
_SUMS = Sums.__struct_fields__
_TIMES = ("start", "end")
_PERIOD = (*_GPU, *_TIMES, "state", "reason", "users", "certain", "busy_percent")
_USAGE = ("name", *_SUMS)
_JOB = ("id", "user", "command", *_TIMES, "certain", "gpus", "places", "advice", *_SUMS)
TableRow = dict[str, Any]


class PeriodTable(Periods, frozen=True, kw_only=True):
    """How GPUs stood; a frame has one row a period."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """As a data frame."""
        rows = (_period(row.gpu, period) for row in self.rows for period in row.periods)
        return to_dataframe(_PERIOD, (*_TIMES, "busy_percent"), rows, library)


class UsageTable(Usages, frozen=True, kw_only=True):
    """What each came to; a frame has one row each."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """As a data frame."""
        rows = ({"name": row.name, **asdict(row.sums)} for row in self.rows)
        return to_dataframe(_USAGE, _SUMS, rows, library)


class JobTable(Jobs, frozen=True, kw_only=True):
    """Jobs; a frame has one row each."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """As a data frame."""
        return to_dataframe(_JOB, (*_TIMES, *_SUMS), map(_job, self.rows), library)


class SeriesTable(Series, frozen=True, kw_only=True):
    """Figures of a node over time; a frame has one row for each grain of each GPU."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """As a data frame: the mean of a figure by its name, and `…_min` and `…_max`."""
        names = dict.fromkeys(name for figures in self.gpus.values() for name in figures)
        ends = [f"{name}{end}" for name in names for end in ("", "_min", "_max")]
        return to_dataframe(("at", "uuid", *ends), ("at", *ends), self._rows(), library)

    def _rows(self) -> Iterator[TableRow]:
        for uuid, figures in self.gpus.items():
            columns = {key: each for name in figures for key, each in _ends(name, figures[name])}
            for place, values in enumerate(zip(*columns.values(), strict=True)):
                at = self.start + place * self.grain_seconds
                yield {"at": at, "uuid": uuid, **dict(zip(columns, values, strict=True))}


def _ends(name: str, figure: Figure) -> Iterator[tuple[str, list[float | None]]]:
    yield name, figure.mean
    yield f"{name}_min", figure.minimum
    yield f"{name}_max", figure.maximum


def _period(gpu: GpuOfNode, period: Period) -> TableRow:
    users = dict.fromkeys(holder.user for holder in period.holders)
    return asdict(gpu) | asdict(period) | {"users": ", ".join(users)}


def _job(job: Job) -> TableRow:
    words = {"places": ", ".join(job.places), "advice": "; ".join(job.advice)}
    return asdict(job) | asdict(job.sums) | words
