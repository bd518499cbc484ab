"""The samples of one node, gathered until they make a piece of its history.

For each report only its figures are packed and put by: what they come to is worked out when
the piece is done, a grain later at the latest.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from math import isnan, nan
from operator import attrgetter

from msgspec import Struct

from fleet_smi.hub.history.grains import Row, Values, in_gibibytes, mean_of, width
from fleet_smi.model.snapshot import Host, Instance, Snapshot

_of_a_gpu = attrgetter(
    "busy_percent", "memory_used_bytes", "power_watts", "temperature_celsius", "sm_clock_mhz"
)


class Piece(Struct, frozen=True, gc=False):
    """A stretch in which the same GPUs stood as they did, and its figures.

    `known` are the seconds in which each figure was, where that is not all of them. The `last`
    sample is as it came.
    """

    start: float
    end: float
    row: Row
    known: tuple[float, ...] | None
    last: Values


class Gatherer:
    """What came of one node since the last piece; `uuids` are the GPUs that the figures are of."""

    __slots__ = ("_packing", "gathered", "uuids")

    def __init__(self, uuids: Sequence[str] = (), gathered: bytes = b"") -> None:
        self.uuids = tuple(uuids)
        self.gathered = bytearray(gathered)
        self._packing = _packing_for(len(self.uuids))

    def gather(self, at: float, snapshot: Snapshot) -> None:
        """Put by the figures of one sample, which has these same GPUs."""
        host = snapshot.host
        used, total = host.memory_used_bytes, host.memory_total_bytes
        percent = nan if used is None or not total else 100 * used / total
        gpus = chain.from_iterable(map(_of_a_gpu, snapshot.gpus))
        try:
            self.gathered += self._packing.pack(at, host.cpu_percent, percent, *gpus)
        except struct.error:  # some are not known, or there are instances
            self.gathered += self._packing.pack(at, *_figures(host, percent, snapshot))

    def piece(self, end: float) -> Piece | None:
        """All that was gathered as one piece up to `end`."""
        samples = list(self._packing.iter_unpack(self.gathered))
        self.gathered.clear()
        if not samples or samples[0][0] >= end:
            return None
        times, *columns = zip(*samples, strict=True)
        held = [after - before for before, after in pairwise([*times, end])]
        row, known = _row(columns, held)
        return Piece(times[0], end, row, known, samples[-1][1:])

    def carry(self, piece: Piece) -> None:
        """Let the last sample of a piece hold on after its end."""
        self.gathered += self._packing.pack(piece.end, *piece.last)


def uuids_in(snapshot: Snapshot) -> tuple[str, ...]:
    """What the figures of a snapshot are of: its GPUs, then the instances of all of them."""
    instances = [part.uuid for gpu in snapshot.gpus for part in gpu.instances]
    return (*[gpu.uuid for gpu in snapshot.gpus], *instances)


def _figures(host: Host, memory_percent: float, snapshot: Snapshot) -> list[float]:
    figures = [host.cpu_percent, memory_percent]
    figures += chain.from_iterable(map(_of_a_gpu, snapshot.gpus))
    for gpu in snapshot.gpus:
        figures += chain.from_iterable(map(_of_an_instance, gpu.instances))
    return [nan if figure is None else figure for figure in figures]


def _of_an_instance(part: Instance) -> tuple[float | None, ...]:
    return part.busy_percent, part.memory_used_bytes, None, None, None


def _row(columns: list[Values], held: list[float]) -> tuple[Row, tuple[float, ...] | None]:
    """The figures over a piece, and the seconds of each unless all are known all the time."""
    ordered, sums, known = list(map(sorted, columns)), list(map(sum, columns)), None
    mean = in_gibibytes(mean_of(columns, sums, held))
    if isnan(sum(sums)):
        known = tuple([_known_seconds(column, held) for column in columns])
        ordered = [sorted([one for one in column if not isnan(one)] or [nan]) for column in columns]
    least = in_gibibytes([column[0] for column in ordered])
    most = in_gibibytes([column[-1] for column in ordered])
    return Row(sum(held), least, mean, most), known


def _known_seconds(values: Values, held: list[float]) -> float:
    return sum([second for one, second in zip(values, held, strict=True) if not isnan(one)])


@lru_cache(maxsize=256)
def _packing_for(gpus: int) -> struct.Struct:
    return struct.Struct(f"<d{width(gpus)}f")
