"""Trends: the figures of the last minutes of each GPU that is watched, for its sparklines."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.history import Series

MAX_POINTS = 240
_FIGURES = ("busy_percent", "memory_used_bytes", "power_watts", "temperature_celsius")
_MIN_STEP_SECONDS = 0.5


class TrendPoint(NamedTuple):
    """The figures of a GPU at one time; `None` is not measured."""

    at: float
    busy_percent: float | None
    memory_used_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None


class Trends:
    """The latest points of each GPU, by UUID."""

    def __init__(self) -> None:
        self._points: dict[str, deque[TrendPoint]] = {}

    def points(self, uuid: str) -> list[TrendPoint]:
        """Return the points of a GPU, the oldest first."""
        return [*self._points.get(uuid, ())]

    def record(self, node: NodeView, at: float) -> None:
        """Add the figures that a node reported at this time; none while it is silent."""
        for gpu in () if node.silent else node.gpus:
            points = self._points.setdefault(gpu.uuid, deque(maxlen=MAX_POINTS))
            if not points or at - points[-1].at >= _MIN_STEP_SECONDS:
                points.append(TrendPoint(at, *[getattr(gpu, figure) for figure in _FIGURES]))

    def fill(self, series: Series) -> None:
        """Put what the history has before the points that were recorded here."""
        for uuid, figures in series.gpus.items():
            columns = [figures[name].mean if name in figures else [] for name in _FIGURES]
            length = max(map(len, columns), default=0)
            known = self._points.get(uuid)
            first = known[0].at if known else float("inf")
            past = []
            for step in range(length):
                at = series.start + step * series.grain_seconds
                values = [column[step] if step < len(column) else None for column in columns]
                if at < first and any(value is not None for value in values):
                    past.append(TrendPoint(at, *values))
            self._points[uuid] = deque([*past, *(known or ())], maxlen=MAX_POINTS)

    def keep_only(self, uuids: Iterable[str]) -> None:
        """Forget all other GPUs."""
        kept = set(uuids)
        self._points = {uuid: points for uuid, points in self._points.items() if uuid in kept}
