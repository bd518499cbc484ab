"""Heat strips: narrow columns are drawn from the periods in them, wide ones from samples."""

from collections.abc import Collection

from fleet_smi.hub.history.asking import Asking
from fleet_smi.hub.history.going_on import with_open_looks, with_open_samples
from fleet_smi.hub.history.rows import Batch, Place
from fleet_smi.hub.history.samples import SAMPLE_SECONDS, Moments
from fleet_smi.model.history import Run
from fleet_smi.model.strip import edges, runs, sampled_at, sampled_runs

_FINE, _COARSE = SAMPLE_SECONDS
_WIDE_SECONDS = _FINE / 2
Drawn = dict[Place, tuple[Run, ...]]


def strips(
    asking: Asking,
    places: Collection[Place],
    start: float,
    end: float,
    columns: int,
    going_on: Batch,
) -> Drawn:
    """How these GPUs looked; one that nobody heard of in that time is left out."""
    width = (end - start) / columns
    if width < _WIDE_SECONDS:
        stood = with_open_looks(asking.looks(places, start, end), going_on)
        return {place: runs(looks, start, end, columns) for place, looks in stood.items()}
    between = edges(start, end, columns)
    moments = Moments.last_by(_FINE if width < _COARSE else _COARSE, sampled_at(between))
    found, looks = with_open_samples(asking.samples(places, moments), moments, going_on)
    return {place: sampled_runs(samples, looks, between) for place, samples in found.items()}
