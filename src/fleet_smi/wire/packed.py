"""The packed report, version 5: a compact report as columns of numbers, without any structure.

It says what one of version 4 says (`compact.py`), in a form that needs no parsing: a hub looks at
the columns of many reports at once. Whatever does not fit is sent as version 4.
"""

import struct
from functools import lru_cache
from math import isnan, nan
from typing import NamedTuple

from fleet_smi.errors import NeedsFullReport, Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot_figures import Column, MemoryLimits, SnapshotFigures
from fleet_smi.wire.compact import OLDER_GPU_COLUMNS, Changes, CompactReport, merge
from fleet_smi.wire.compact_codec import decode_compact, encode_compact
from fleet_smi.wire.figure_codes import NoCode
from fleet_smi.wire.packed_layout import (
    GPUS_AT,
    HEAD,
    HUB_BYTES,
    NOT_MEASURED,
    OLDER_PACKED_VERSION,
    PACKED_COLUMNS,
    PACKED_MARK,
    PACKED_VERSION,
    PROCESSES_AT,
    RUNS_AT,
    SEQUENCE_AT,
    PackedColumn,
)

_NOT_SENT: Changes = (None,) * len(PACKED_COLUMNS)
_MARK, _VERSION = bytes([PACKED_MARK]), bytes([PACKED_VERSION])
_OLDER_VERSION = bytes([OLDER_PACKED_VERSION])
PREFIX_BYTES = 2
"""The first bytes of a packed report: its mark and version."""


class PackedFigures(NamedTuple):
    """The figures of a packed report: all of it but its head."""

    gpu_count: int
    process_count: int
    run_count: int
    narrow: int
    wide: int
    data: bytes


def is_packed(body: bytes) -> bool:
    """Return whether bytes begin like a packed report."""
    return body[:1] == _MARK


def packed_sequence(body: bytes) -> int:
    """Return the number of a packed report."""
    return int.from_bytes(body[SEQUENCE_AT : SEQUENCE_AT + 8], "little")


@lru_cache(maxsize=1024)
def hub_field(hub: str) -> bytes:
    """Return what a packed report has at `HUB_AT` whose base was acknowledged with this id."""
    return hub.encode().ljust(HUB_BYTES, b"\0")


def encode_packed(report: CompactReport, sent_at: float, hub: str) -> bytes:
    """Encode a compact report that is sent now; raise `NoCode` where version 4 has to do."""
    return pack_head(
        pack_figures(report),
        sent_at,
        hub,
        report.run,
        report.base,
        report.sequence,
        report.taken_at,
    )


def pack_head(
    figures: PackedFigures,
    sent_at: float,
    hub: str,
    run: int,
    base: int,
    sequence: int,
    taken_at: float,
) -> bytes:
    """Encode a packed report of figures that are packed already; raise `NoCode`."""
    if len(hub) > HUB_BYTES or not hub.isascii():
        raise NoCode
    gpus, processes, runs, narrow, wide, data = figures
    numbers = sequence, sequence - base, run, narrow, wide
    try:
        head = HEAD.pack(
            PACKED_MARK,
            PACKED_VERSION,
            gpus,
            processes,
            runs,
            sent_at,
            taken_at,
            hub.encode(),
            *numbers,
        )
    except struct.error:
        raise NoCode from None
    return head + data


def pack_figures(report: CompactReport) -> PackedFigures:
    """Pack the figures of a compact report; raise `NoCode`."""
    if report.instances is not None:
        raise NoCode
    narrow = wide = 0
    parts: list[bytes] = []
    for position, column in enumerate(_sent_columns(report)):
        if column is not None:
            data = _pack_narrow(column, PACKED_COLUMNS[position])
            if data is not None:
                narrow |= 1 << position
            else:
                data = _pack_wide(column)
                wide |= 1 << position
            parts.append(data)
    sizes = _size(report.gpus), _size(report.processes), len(report.run_seconds or ())
    return PackedFigures(*sizes, narrow, wide, b"".join(parts))


def decode_packed(body: bytes) -> CompactReport:
    """Decode a packed report, within the limits of every compact report.

    Raise `NeedsFullReport`, `Undecodable` or `UnsupportedVersion`, as `decode_compact` does.
    """
    report = unpack(body)
    return decode_compact(encode_compact(report, report.sent_at, report.hub))


def merge_packed(base: SnapshotFigures, body: bytes, limits: MemoryLimits) -> SnapshotFigures:
    """Return the figures of a packed report that was found valid."""
    return merge(base, unpack(body), limits)


def unpack(body: bytes) -> CompactReport:
    """Return a packed report, whose numbers may be beyond their limits."""
    if body[1:2] not in (b"", _VERSION, _OLDER_VERSION):
        raise UnsupportedVersion(
            f"a packed report of version {body[1]}; this hub knows {PACKED_VERSION}"
        )
    if len(body) < HEAD.size:
        raise Undecodable("not a packed report: it is cut short")
    _, _, *counts, sent_at, taken_at, hub, sequence, distance, run, narrow, wide = HEAD.unpack_from(
        body
    )
    if body[1:2] == _OLDER_VERSION:
        narrow, wide = _current_mask(narrow), _current_mask(wide)
    columns = _unpack_columns(body, tuple(counts), narrow, wide)
    host = columns[:RUNS_AT]
    return CompactReport(
        sent_at=sent_at,
        hub=hub.rstrip(b"\0").decode("ascii", "replace"),
        run=run,
        base=max(0, sequence - distance),
        sequence=sequence,
        taken_at=taken_at,
        host=None if None in host else tuple([each[0] for each in host if each is not None]),
        gpus=_changes(columns[GPUS_AT:PROCESSES_AT]),
        processes=_changes(columns[PROCESSES_AT:]),
        run_seconds=columns[RUNS_AT],
    )


def _current_mask(mask: int) -> int:
    """Return the mask of an older report as of this version, which has more columns of GPUs."""
    at = GPUS_AT + OLDER_GPU_COLUMNS
    return mask & (1 << at) - 1 | mask >> at << PROCESSES_AT


def column_counts(gpus: int, processes: int, runs: int) -> list[int]:
    """Return how many values each column has."""
    gpu_columns, others = PROCESSES_AT - GPUS_AT, len(PACKED_COLUMNS) - PROCESSES_AT
    return [*[1] * RUNS_AT, runs, *[gpus] * gpu_columns, *[processes] * others]


class _Layout(NamedTuple):
    """Where the columns of a report are: what all have in common that have the same masks."""

    form: struct.Struct
    columns: tuple[tuple[int, slice, bool, PackedColumn], ...]


@lru_cache(maxsize=512)
def _layout(counts: tuple[int, ...], narrow: int, wide: int) -> _Layout:
    form, at, columns = "<", 0, []
    for position, (column, count) in enumerate(
        zip(PACKED_COLUMNS, column_counts(*counts), strict=True)
    ):
        is_wide = bool(wide >> position & 1)
        if is_wide or narrow >> position & 1:
            form += f"{count}{'d' if is_wide else 'I'}"
            columns.append((position, slice(at, at + count), is_wide, column))
            at += count
    return _Layout(struct.Struct(form), tuple(columns))


def _unpack_columns(body: bytes, counts: tuple[int, ...], narrow: int, wide: int) -> Changes:
    form, found = _layout(counts, narrow, wide)
    is_beyond = (narrow | wide) >> len(PACKED_COLUMNS)
    if form.size != len(body) - HEAD.size or narrow & wide or is_beyond:
        raise Undecodable("not a packed report: its columns do not have its length")
    numbers, columns = form.unpack_from(body, HEAD.size), [*_NOT_SENT]
    for position, own, is_wide, column in found:
        columns[position] = (_read_wide if is_wide else _read_narrow)(numbers[own], column)
    return tuple(columns)


def _read_narrow(numbers: tuple[int, ...], column: PackedColumn) -> Column:
    is_whole, factor, divisor, _, _ = column
    if NOT_MEASURED in numbers:
        measured = [None if each == NOT_MEASURED else each * factor for each in numbers]
        if is_whole:
            return tuple(measured)
        return tuple([None if each is None else each / divisor for each in measured])
    if factor != 1:
        numbers = tuple([each * factor for each in numbers])
    if is_whole:
        return numbers
    return tuple([each / divisor for each in numbers])


def _read_wide(numbers: tuple[float, ...], column: PackedColumn) -> Column:
    if column.is_whole:
        return tuple([None if isnan(each) else _whole(each, column) for each in numbers])
    return tuple([None if isnan(each) else each for each in numbers])


def _whole(number: float, column: PackedColumn) -> int:
    if not column.low <= number <= column.high or int(number) != number:
        raise NeedsFullReport("a number beyond its limits, or a fraction of what is counted")
    return int(number)


def _changes(columns: Changes) -> Changes | None:
    return columns if any(column is not None for column in columns) else None


def _sent_columns(report: CompactReport) -> list[Column | None]:
    host: list[Column | None] = [None] * RUNS_AT
    if report.host is not None:
        host = [(value,) for value in report.host]
    gpus = report.gpus or (None,) * (PROCESSES_AT - GPUS_AT)
    processes = report.processes or (None,) * (len(PACKED_COLUMNS) - PROCESSES_AT)
    return [*host, report.run_seconds, *gpus, *processes]


def _size(changes: Changes | None) -> int:
    return next((len(column) for column in changes or () if column is not None), 0)


def _pack_narrow(column: Column, packed: PackedColumn) -> bytes | None:
    """Return the values as whole numbers of a unit; `None` where one is not."""
    form, (_, factor, divisor, _, _) = f"<{len(column)}I", packed
    if factor == divisor:
        try:
            data = struct.pack(form, *column)  # whole numbers, as most drivers give them
        except struct.error:
            pass
        else:
            return None if NOT_MEASURED in column else data
    try:
        numbers = [
            NOT_MEASURED if value is None else round(value * divisor / factor) for value in column
        ]
        data = struct.pack(form, *numbers)
    except (ValueError, OverflowError, struct.error):  # not a number, infinite, or too large
        return None
    # Exactly, as the hub reads it: nothing is rounded on the way.
    read = tuple(
        [None if number == NOT_MEASURED else number * factor / divisor for number in numbers]
    )
    return data if read == column else None


def _pack_wide(column: Column) -> bytes:
    if any(value is not None and float(value) != value for value in column):
        raise NoCode  # not a number, or a larger one than a float has digits for
    return struct.pack(f"<{len(column)}d", *[nan if value is None else value for value in column])
