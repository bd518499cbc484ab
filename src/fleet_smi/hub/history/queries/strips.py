"""Heat strips of GPUs: narrow columns are drawn from periods, wide ones from samples."""

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
# Narrower columns would repeat a sample over more than two of them.
_MIN_SAMPLED_SECONDS = _FINE / 2
StripRuns = dict[GpuKey, tuple[StripRun, ...]]


def build_strips(
    queries: HistoryQueries,
    gpu_keys: Collection[GpuKey],
    start: float,
    end: float,
    columns: int,
    live: WriteBatch,
) -> StripRuns:
    """The strips of these GPUs; one without data in that range is left out."""
    width = (end - start) / columns
    if width < _MIN_SAMPLED_SECONDS:
        by_gpu = merge_strip_intervals(queries.strip_intervals(gpu_keys, start, end), live)
        return {
            gpu_key: strip_runs(intervals, start, end, columns)
            for gpu_key, intervals in by_gpu.items()
        }
    edges = column_edges(start, end, columns)
    times = SampleTimes.at_or_before(_FINE if width < _COARSE else _COARSE, sample_times(edges))
    samples, looks = merge_strip_samples(queries.strip_samples(gpu_keys, times), times, live)
    return {
        gpu_key: strip_runs_from_samples(of_gpu, looks, edges)
        for gpu_key, of_gpu in samples.items()
    }
