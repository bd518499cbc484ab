"""Heat strips: narrow columns are drawn from the periods in them, wide ones from samples."""

from collections.abc import Collection

from fleet_smi.hub.history.queries.merge_live import merge_strip_intervals, merge_strip_samples
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.series_row import GpuKey
from fleet_smi.hub.history.series.strip_samples import SAMPLE_INTERVALS, SampleTimes
from fleet_smi.model.heat_strip import (
    column_edges,
    sample_times,
    strip_runs,
    strip_runs_from_samples,
)
from fleet_smi.model.history import StripRun

_FINE, _COARSE = SAMPLE_INTERVALS
_WIDE_SECONDS = _FINE / 2
StripRuns = dict[GpuKey, tuple[StripRun, ...]]


def build_strips(
    queries: HistoryQueries,
    gpu_keys: Collection[GpuKey],
    start: float,
    end: float,
    columns: int,
    live: WriteBatch,
) -> StripRuns:
    """How these GPUs looked; one that nobody heard of in that time is left out."""
    width = (end - start) / columns
    if width < _WIDE_SECONDS:
        stood = merge_strip_intervals(queries.strip_intervals(gpu_keys, start, end), live)
        return {place: strip_runs(looks, start, end, columns) for place, looks in stood.items()}
    between = column_edges(start, end, columns)
    moments = SampleTimes.at_or_before(_FINE if width < _COARSE else _COARSE, sample_times(between))
    found, looks = merge_strip_samples(queries.strip_samples(gpu_keys, moments), moments, live)
    return {
        place: strip_runs_from_samples(samples, looks, between) for place, samples in found.items()
    }
