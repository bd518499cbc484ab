"""Tables of the history: structs that can be converted to data frames.

A frame has the names of the structs, times in seconds since 1970, and missing values for what
is unknown; it is one of pandas, or of polars if only that is installed or it is requested.
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
    """The states of GPUs over time; a frame has one row per period."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """Convert to a data frame."""
        rows = (_period(row.gpu, period) for row in self.rows for period in row.periods)
        return to_dataframe(_PERIOD, (*_TIMES, "busy_percent"), rows, library)


class UsageTable(Usages, frozen=True, kw_only=True):
    """Usage totals; a frame has one row per user, group, node, model or GPU."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """Convert to a data frame."""
        rows = ({"name": row.name, **asdict(row.sums)} for row in self.rows)
        return to_dataframe(_USAGE, _SUMS, rows, library)


class JobTable(Jobs, frozen=True, kw_only=True):
    """Jobs; a frame has one row per job."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """Convert to a data frame."""
        return to_dataframe(_JOB, (*_TIMES, *_SUMS), map(_job, self.rows), library)


class SeriesTable(Series, frozen=True, kw_only=True):
    """Metrics of a node over time; a frame has one row per GPU and time step."""

    def frame(self, library: DataFrameLibrary | None = None) -> Any:
        """Convert to a data frame: the mean of a metric by its name, and `…_min` and `…_max`."""
        names = dict.fromkeys(name for figures in self.gpus.values() for name in figures)
        numeric = [f"{name}{suffix}" for name in names for suffix in ("", "_min", "_max")]
        return to_dataframe(("at", "uuid", *numeric), ("at", *numeric), self._rows(), library)

    def _rows(self) -> Iterator[TableRow]:
        for uuid, figures in self.gpus.items():
            columns = {
                column: values
                for name, figure in figures.items()
                for column, values in _columns(name, figure)
            }
            for step, values in enumerate(zip(*columns.values(), strict=True)):
                at = self.start + step * self.grain_seconds
                yield {"at": at, "uuid": uuid, **dict(zip(columns, values, strict=True))}


def _columns(name: str, figure: Figure) -> Iterator[tuple[str, list[float | None]]]:
    yield name, figure.mean
    yield f"{name}_min", figure.minimum
    yield f"{name}_max", figure.maximum


def _period(gpu: GpuOfNode, period: Period) -> TableRow:
    users = dict.fromkeys(holder.user for holder in period.holders)
    return asdict(gpu) | asdict(period) | {"users": ", ".join(users)}


def _job(job: Job) -> TableRow:
    texts = {"places": ", ".join(job.places), "advice": "; ".join(job.advice)}
    return asdict(job) | asdict(job.sums) | texts
