"""Growth per second of the counters among a node's figures, such as energy."""

from collections.abc import Sequence
from math import inf, nan

from fleet_smi.hub.history.series.layout import GPU_COLUMNS
from fleet_smi.model.figures import RECORDED_GPU_FIGURES

_OFFSETS = [
    offset for offset, figure in enumerate(RECORDED_GPU_FIGURES) if figure.history == "counter"
]
_STRIDE = len(GPU_COLUMNS)
# Half of the finest grain that is stored: comparing more often would tell nothing more.
_MIN_SECONDS = 5.0


class CounterGrowth:
    """Replaces counters by how much they grew per second when they were last compared."""

    __slots__ = ("_at", "_counters", "_gpu_count", "_growth")

    def __init__(self) -> None:
        self._at = -inf
        self._gpu_count = -1
        self._counters: list[list[float | None]] = []
        self._growth: list[list[float]] = []

    def apply(self, at: float, gpu_count: int, figures: list[float | None]) -> None:
        """Replace the counters in the figures of all GPUs; unknown growth is NaN."""
        if not 0.0 <= at - self._at < _MIN_SECONDS or gpu_count != self._gpu_count:
            self._compare(at, gpu_count, [figures[offset::_STRIDE] for offset in _OFFSETS])
        for offset, growth in zip(_OFFSETS, self._growth, strict=True):
            figures[offset::_STRIDE] = growth

    def _compare(self, at: float, gpu_count: int, counters: list[list[float | None]]) -> None:
        elapsed = at - self._at
        if elapsed > 0.0 and gpu_count == self._gpu_count:
            rows = zip(self._counters, counters, strict=True)
            self._growth = [_growth_per_second(old, new, elapsed) for old, new in rows]
        else:
            self._growth = [[nan] * gpu_count for _ in _OFFSETS]
        self._at, self._gpu_count, self._counters = at, gpu_count, counters


def _growth_per_second(
    before: Sequence[float | None], after: Sequence[float | None], elapsed: float
) -> list[float]:
    """Compare a counter of each GPU; where it became smaller, it was reset in between."""
    return [
        nan if old is None or new is None or new < old else (new - old) / elapsed
        for old, new in zip(before, after, strict=True)
    ]
