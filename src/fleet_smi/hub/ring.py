"""The last hour of one node: a row every ten seconds, and in each row every figure and state.

A row is the mean of the reports that came within it, with two bytes a figure, which is exact to
one part in 2,000. What nobody measured is not a number.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from math import isnan, nan

from msgspec import Struct

from fleet_smi.model.fleet import STATES, State

GRAIN_SECONDS = 10
GRAINS = 360
NODE_FIGURES = 2
GPU_FIGURES = 4
_UNKNOWN_NODE = (nan,) * NODE_FIGURES
_UNKNOWN_GPU = (nan,) * GPU_FIGURES
_MOST_REPORTS = 255
# Memory is held in gibibytes: bytes would be too large.
_MEMORY = slice(NODE_FIGURES + 1, None, GPU_FIGURES)
_GIB = 1 << 30
# More than this no two bytes can hold, and no node has measured.
_MOST_FIGURE = 65_504.0
_CODES = {state: code for code, state in enumerate(STATES, 1)}
_STATES: tuple[State | None, ...] = (None, *STATES)
_NOT_JUDGED = 0

Figures = tuple[float, ...]


class Row(Struct, frozen=True, gc=False):
    """The figures of the node, then those of each GPU; of so many `reports`."""

    reports: int
    figures: Figures
    codes: tuple[int, ...]


class Ring:
    """The rows of one node; grains are counted from 1970, and the newest takes the oldest's place.

    What comes is gathered for one `grain`, from reports that have the same UUIDs in `reported`.
    A report `holds` for so many grains: a node may report more seldom than there are grains.
    """

    __slots__ = (
        "_gathered",
        "_gathering",
        "_gpus",
        "_newest",
        "_packing",
        "_rows",
        "_states",
        "_uuids",
        "grain",
        "holds",
        "reported",
    )

    def __init__(self, uuids: list[str], grain: int) -> None:
        self.reported: list[str] = []
        self.holds = 1
        self.grain = self._newest = grain
        self._gathered = bytearray()
        self._gathering = struct.Struct("")
        self._gpus: list[str] = []
        self._states: Mapping[str, State] = {}
        self._hold(uuids)

    def turn(self, grain: int, gpus: list[str], states: Mapping[str, State], *, late: bool) -> None:
        """Let the reports that come be of another grain, or of other GPUs.

        `states` has every GPU of the node. Those of a `late` report were never judged.
        """
        self.fold()
        if not late and grain != self.grain:
            self._advance(grain, list(states))
        self.grain, self._gpus = grain, gpus
        self._states = {} if late else states
        self._gathering = struct.Struct(f"<{_figures_of(gpus)}f")

    def gather(self, figures: list[float | None]) -> None:
        """Take in one report: the figures of the node, then those of each of its GPUs."""
        try:
            self._gathered += self._gathering.pack(*figures)
        except struct.error:  # some are not known
            known = [nan if figure is None else figure for figure in figures]
            self._gathered += self._gathering.pack(*known)

    def fold(self) -> None:
        """Write what was gathered into the row of its grain."""
        reports = list(self._gathering.iter_unpack(self._gathered)) if self._gathered else []
        self._gathered.clear()
        if reports and self._newest - GRAINS < self.grain <= self._newest:
            row = Row(len(reports), self._placed(_means(reports)), self._codes())
            before = self._row(self.grain)
            self._write(self.grain, row if before is None else _joined(before, row))

    def hour(self, last: int) -> "Columns":
        """The hour that ends with the grain `last`."""
        self.fold()
        blank = _blank(len(self._uuids))
        rows, known, known_at = [], blank, last - GRAINS - self.holds
        for grain in range(last - GRAINS + 1, last + 1):
            if (row := self._row(grain)) is not None:
                known, known_at = row, grain
            rows.append(known if grain - known_at < self.holds else blank)
        return Columns(self._uuids, rows)

    def _placed(self, means: Figures) -> Figures:
        """The figures of a report, with every GPU in the place that it has in a row."""
        if self._gpus == self._uuids:
            return means
        parts = dict(zip(self._gpus, _by_gpu(means), strict=True))
        placed = [parts.get(uuid, _UNKNOWN_GPU) for uuid in self._uuids]
        return (*means[:NODE_FIGURES], *chain.from_iterable(placed))

    def _codes(self) -> tuple[int, ...]:
        states = self._states
        return tuple([_CODES[states[u]] if u in states else _NOT_JUDGED for u in self._uuids])

    def _advance(self, grain: int, uuids: list[str]) -> None:
        """Make room for a newer grain, and for the GPUs that the node has now."""
        if uuids != self._uuids:
            self._make_room(uuids)
        if grain <= self._newest - GRAINS:  # the hub's clock was set back
            self._newest = grain - GRAINS
        for passed in range(max(self._newest, grain - GRAINS) + 1, grain + 1):
            self._rows[self._offset(passed)] = 0
        self._newest = max(self._newest, grain)

    def _make_room(self, uuids: list[str]) -> None:
        """Keep every row, with places for these GPUs."""
        places = {uuid: place for place, uuid in enumerate(self._uuids)}
        chosen = [places.get(uuid, len(places)) for uuid in uuids]
        first = self._newest - GRAINS + 1
        rows = [(grain, self._row(grain)) for grain in range(first, self._newest + 1)]
        self._hold(uuids)
        for grain, row in rows:
            if row is not None:
                gpus, codes = [*_by_gpu(row.figures), _UNKNOWN_GPU], (*row.codes, _NOT_JUDGED)
                figures = chain(row.figures[:NODE_FIGURES], *[gpus[place] for place in chosen])
                moved = tuple([codes[place] for place in chosen])
                self._write(grain, Row(row.reports, tuple(figures), moved))

    def _hold(self, uuids: list[str]) -> None:
        self._uuids = uuids
        self._packing = struct.Struct(f"<B{_figures_of(uuids)}e{len(uuids)}B")
        self._rows = bytearray(self._packing.size * GRAINS)

    def _row(self, grain: int) -> Row | None:
        """What is held of a grain: nothing, where its place is empty or that of another."""
        offset = self._offset(grain)
        if not self._rows[offset] or not self._newest - GRAINS < grain <= self._newest:
            return None
        reports, *rest = self._packing.unpack_from(self._rows, offset)
        figures = _figures_of(self._uuids)
        return Row(reports, tuple(rest[:figures]), tuple(rest[figures:]))

    def _write(self, grain: int, row: Row) -> None:
        reports, offset = min(row.reports, _MOST_REPORTS), self._offset(grain)
        try:
            self._packing.pack_into(self._rows, offset, reports, *row.figures, *row.codes)
        except OverflowError:
            known = [figure if figure < _MOST_FIGURE else nan for figure in row.figures]
            self._packing.pack_into(self._rows, offset, reports, *known, *row.codes)

    def _offset(self, grain: int) -> int:
        return grain % GRAINS * self._packing.size


class Columns:
    """An hour, figure by figure."""

    def __init__(self, uuids: Sequence[str], rows: Sequence[Row]) -> None:
        self.uuids = uuids
        self._figures = list(zip(*[row.figures for row in rows], strict=True))
        self._codes = list(zip(*[row.codes for row in rows], strict=True))

    def node(self) -> Sequence[Figures]:
        """The node's figures."""
        return self._figures[:NODE_FIGURES]

    def gpu(self, uuid: str) -> Sequence[Figures]:
        """The figures of one GPU."""
        start = NODE_FIGURES + GPU_FIGURES * self.uuids.index(uuid)
        return self._figures[start : start + GPU_FIGURES]

    def states(self, uuid: str) -> list[State | None]:
        """What one GPU was judged to be; `None` where it was not judged."""
        return [_STATES[code] for code in self._codes[self.uuids.index(uuid)]]


def _figures_of(gpus: Sequence[str]) -> int:
    return NODE_FIGURES + GPU_FIGURES * len(gpus)


def _by_gpu(figures: Figures) -> list[Figures]:
    starts = range(NODE_FIGURES, len(figures), GPU_FIGURES)
    return [figures[start : start + GPU_FIGURES] for start in starts]


def _blank(gpus: int) -> Row:
    return Row(0, _UNKNOWN_NODE + _UNKNOWN_GPU * gpus, (_NOT_JUDGED,) * gpus)


def _means(reports: Sequence[Figures]) -> Figures:
    means = [figure / len(reports) for figure in map(sum, zip(*reports, strict=True))]
    if isnan(sum(means)):
        columns = zip(*reports, strict=True)
        means = [
            _mean_of_known(column) if isnan(mean) else mean
            for mean, column in zip(means, columns, strict=True)
        ]
    means[_MEMORY] = [used / _GIB for used in means[_MEMORY]]
    return tuple(means)


def _mean_of_known(figures: Figures) -> float:
    known = [figure for figure in figures if not isnan(figure)]
    return sum(known) / len(known) if known else nan


def _joined(before: Row, after: Row) -> Row:
    """Two parts of one grain, each with the weight of its reports."""
    reports = before.reports + after.reports
    figures = [
        (was * before.reports + now * after.reports) / reports
        if not isnan(was + now)
        else (was if isnan(now) else now)
        for was, now in zip(before.figures, after.figures, strict=True)
    ]
    codes = [now or was for was, now in zip(before.codes, after.codes, strict=True)]
    return Row(reports, tuple(figures), tuple(codes))
