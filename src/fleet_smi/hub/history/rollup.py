"""Rows of one grain joined to rows of the next, for one node."""

from msgspec import Struct

from fleet_smi.hub.history.grains import (
    GRAINS,
    Row,
    in_gibibytes,
    joined,
    pack,
    pack_exactly,
    placed,
    unpack,
    unpack_exactly,
)
from fleet_smi.hub.history.pieces import Piece
from fleet_smi.hub.history.rows import SeriesRow

_FINE, _MIDDLE, _COARSE, _LONG = GRAINS


class Rolled(Struct, array_like=True):
    """What is not done yet: parts of this grain, rows of this minute, all of this quarter.

    Each begins at its `…_start`, and has the figures of the GPUs `uuids`. The quarters of this
    eighth of a day that are done have GPUs of their own.
    """

    uuids: tuple[str, ...] = ()
    grain_start: int = 0
    parts: list[Row] = []
    minute_start: int = 0
    minute: list[bytes] = []
    quarter_start: int = 0
    quarter: bytes | None = None
    eighth_start: int = 0
    eighth: bytes | None = None
    eighth_uuids: tuple[str, ...] = ()


class Rollup:
    """Takes the pieces of one node in order, gives its rows."""

    __slots__ = ("_node_id", "rolled")

    def __init__(self, node_id: str, rolled: Rolled | None = None) -> None:
        self._node_id = node_id
        self.rolled = Rolled() if rolled is None else rolled

    def take(
        self, piece: Piece, uuids: tuple[str, ...], pace_seconds: float = 0.0
    ) -> list[SeriesRow]:
        """One more piece, of these GPUs, told at that pace; the rows that are done with it."""
        rolled = self.rolled
        done: list[SeriesRow] = []
        if uuids != rolled.uuids:
            self._make_room(uuids)
        if pace_seconds >= _COARSE:
            return self._take_long(piece, uuids)
        for start, row in _spread(piece):
            if start != rolled.grain_start:
                done += self.finish(start)
                rolled.grain_start = start
            rolled.parts.append(placed(row, uuids, rolled.uuids))
        return done + self.finish(piece.end)

    def _take_long(self, piece: Piece, uuids: tuple[str, ...]) -> list[SeriesRow]:
        """A sample that holds for long: finer rows would all say the same."""
        done, start = self.finish(piece.start), piece.start
        done += [self._grain()] if self.rolled.parts else []
        done += [self._minute()] if self.rolled.minute else []
        last = in_gibibytes(piece.last)
        while start < piece.end:
            self._make_room(uuids)
            end = min(piece.end, (start // _COARSE + 1) * _COARSE)
            held = Row(end - start, last, last, last)
            self._add_to_quarter(placed(held, uuids, self.rolled.uuids), int(start))
            done += self.finish(end)
            start = end
        return done

    def finish(self, at: float) -> list[SeriesRow]:
        """The rows that are done because their time is over."""
        rolled = self.rolled
        done: list[SeriesRow] = []
        if rolled.parts and rolled.grain_start + _FINE <= at:
            done.append(self._grain())
        if rolled.minute and rolled.minute_start + _MIDDLE <= at:
            done.append(self._minute())
        if rolled.quarter is not None and rolled.quarter_start + _COARSE <= at:
            done.append(self._quarter(rolled.quarter))
        if rolled.eighth is not None and rolled.eighth_start + _LONG <= at:
            done.append(self._eighth(rolled.eighth))
        return done

    def _grain(self) -> SeriesRow:
        rolled = self.rolled
        data, rolled.parts = pack(joined(rolled.parts)), []
        rolled.minute_start = rolled.grain_start // _MIDDLE * _MIDDLE
        rolled.minute.append(data)
        return self._row(_FINE, rolled.grain_start, data, rolled.uuids)

    def _minute(self) -> SeriesRow:
        rolled = self.rolled
        row, rolled.minute = joined([unpack(data) for data in rolled.minute]), []
        self._add_to_quarter(row, rolled.minute_start)
        return self._row(_MIDDLE, rolled.minute_start, pack(row), rolled.uuids)

    def _add_to_quarter(self, row: Row, start: int) -> None:
        rolled = self.rolled
        before = [] if rolled.quarter is None else [unpack_exactly(rolled.quarter)]
        rolled.quarter_start = start // _COARSE * _COARSE
        rolled.quarter = pack_exactly(joined([*before, row]))

    def _quarter(self, data: bytes) -> SeriesRow:
        rolled, row = self.rolled, unpack_exactly(data)
        self._add_to_eighth(row, rolled.uuids)
        done = self._row(_COARSE, rolled.quarter_start, pack(row), rolled.uuids)
        rolled.quarter, rolled.uuids = None, ()
        return done

    def _add_to_eighth(self, row: Row, uuids: tuple[str, ...]) -> None:
        rolled, room = self.rolled, _room(uuids, self.rolled.eighth_uuids)
        if rolled.eighth is not None:
            before = placed(unpack_exactly(rolled.eighth), rolled.eighth_uuids, room)
            row = joined([before, placed(row, uuids, room)])
        rolled.eighth_start = rolled.quarter_start // _LONG * _LONG
        rolled.eighth, rolled.eighth_uuids = pack_exactly(row), room

    def _eighth(self, data: bytes) -> SeriesRow:
        rolled, packed = self.rolled, pack(unpack_exactly(data))
        done = self._row(_LONG, rolled.eighth_start, packed, rolled.eighth_uuids)
        rolled.eighth, rolled.eighth_uuids = None, ()
        return done

    def _row(
        self, grain_seconds: int, start: int, data: bytes, uuids: tuple[str, ...]
    ) -> SeriesRow:
        return SeriesRow(
            grain_seconds=grain_seconds,
            node_id=self._node_id,
            start=start,
            uuids=uuids,
            data=data,
        )

    def _make_room(self, uuids: tuple[str, ...]) -> None:
        """Let there be a place for each of these GPUs beside those that are told of already."""
        rolled, was = self.rolled, self.rolled.uuids
        room = _room(uuids, was)
        if room == was:
            return
        rolled.uuids = room
        rolled.parts = [placed(row, was, room) for row in rolled.parts]
        rolled.minute = [pack(placed(unpack(data), was, room)) for data in rolled.minute]
        if rolled.quarter is not None:
            rolled.quarter = pack_exactly(placed(unpack_exactly(rolled.quarter), was, room))


def _room(uuids: tuple[str, ...], was: tuple[str, ...]) -> tuple[str, ...]:
    """A place for each of these GPUs beside those that were there."""
    return (*uuids, *[uuid for uuid in was if uuid not in uuids])


def _spread(piece: Piece) -> list[tuple[int, Row]]:
    """The grains that a piece is in: its last sample may hold for long."""
    first, next_sample = _grain_of(piece.start), _grain_of(piece.end)
    if next_sample <= first + _FINE:
        return [(first, piece.row)]
    last = in_gibibytes(piece.last)
    head = Row(first + _FINE - piece.start, piece.row.least, piece.row.mean, piece.row.most)
    held = Row(float(_FINE), last, last, last)
    return [(first, head), *[(start, held) for start in range(first + _FINE, next_sample, _FINE)]]


def _grain_of(at: float) -> int:
    return int(at // _FINE) * _FINE
