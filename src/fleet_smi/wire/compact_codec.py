"""Codec of the compact report: an array of msgpack, by position and without names.

There is no text in it but the `hub` of the last receipt, which is only compared: nothing has to be
sanitised, and msgspec checks every limit in C.
"""

from collections.abc import Sequence
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from fleet_smi.errors import NeedsFullReport, Undecodable, UnsupportedVersion
from fleet_smi.model.snapshot_figures import (
    GPU_FIELDS,
    Column,
    GpuFigures,
    HostFigures,
    InstanceFigures,
    ProcessFigures,
)
from fleet_smi.wire.compact import (
    COMPACT_VERSION,
    OLDER_COMPACT_VERSION,
    OLDER_GPU_COLUMNS,
    Changes,
    CompactReport,
)
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.figure_codes import GPU_CODES, PROCESS_CODES, FigureCode
from fleet_smi.wire.lenient import DECODE_ERRORS
from fleet_smi.wire.limits import FIELD_RANGES, MAX_ITEMS, MAX_TEXT_LENGTH, unwrap_optional
from fleet_smi.wire.packed_layout import OLDER_PACKED_VERSION, PACKED_VERSION
from fleet_smi.wire.report import REPORT_VERSION

READABLE_VERSIONS = (
    REPORT_VERSION,
    OLDER_COMPACT_VERSION,
    OLDER_PACKED_VERSION,
    COMPACT_VERSION,
    PACKED_VERSION,
)
_MAX_PROCESSES = 4096  # a node has 512 listed, and one more for each further instance
_MAX_SHORT = 1 << 53  # a larger one is no figure, and too long for an integer of msgpack
_ARRAY_START = bytes([0x90 | len(CompactReport.__struct_fields__)])  # of msgpack
_encoder = msgspec.msgpack.Encoder()


def is_compact(body: bytes) -> bool:
    """Return whether bytes begin like a compact report: an array, where a full one is a map."""
    return body[0] >> 4 == 0x9 if body else False


def encode_compact(report: CompactReport, sent_at: float, hub: str) -> bytes:
    """Encode a compact report that is sent now; `hub` is that of the receipt for its base."""
    head = encode_head(sent_at, hub, report.run, report.base, report.sequence, report.taken_at)
    return head + encode_tail(report)


def encode_head(
    sent_at: float, hub: str, run: int, base: int, sequence: int, taken_at: float
) -> bytes:
    """Encode all of a compact report that is not its figures; `encode_tail` continues it."""
    head = _encoder.encode((COMPACT_VERSION, sent_at, hub, run, base, sequence, taken_at))
    return _ARRAY_START + head[1:]


def encode_tail(report: CompactReport) -> bytes:
    """Encode the figures of a compact report."""
    figures = (
        report.host and _short(report.host),
        _short_columns(report.gpus),
        _short_columns(report.instances),
        _short_columns(report.processes),
        report.run_seconds,
    )
    return _encoder.encode(figures)[1:]


def decode_compact(body: bytes) -> CompactReport:
    """Decode a compact report within all limits, which msgspec checks in C.

    Raise `NeedsFullReport` if it breaks one: the full report is mended field by field. Raise
    `Undecodable` or `UnsupportedVersion` if it is none.
    """
    try:
        return cast(CompactReport, _decoder().decode(body))
    except DECODE_ERRORS as error:
        reason = describe_error(error)
    try:
        version = msgspec.msgpack.decode(body, type=_Versioned).version
    except DECODE_ERRORS:
        raise Undecodable(f"not a compact report: {reason}") from None
    if version == OLDER_COMPACT_VERSION:
        return _decode_older(body)
    if version != COMPACT_VERSION:
        raise UnsupportedVersion(
            f"a compact report of version {version}; this hub knows {COMPACT_VERSION}"
        )
    raise NeedsFullReport(reason)


def _decode_older(body: bytes) -> CompactReport:
    """Decode a compact report of an agent that does not know the latest figures of GPUs."""
    try:
        report: CompactReport = _decoder(OLDER_COMPACT_VERSION, OLDER_GPU_COLUMNS).decode(body)
    except DECODE_ERRORS as error:
        raise NeedsFullReport(describe_error(error)) from None
    if report.gpus is None:
        return report
    missing = (None,) * (len(GPU_FIELDS) - OLDER_GPU_COLUMNS)
    return replace(report, gpus=(*report.gpus, *missing))


class _Versioned(Struct, array_like=True):
    version: Annotated[int, Meta(ge=0, le=65_535)]


def _short_columns(changes: Changes | None) -> Changes | None:
    if changes is None:
        return None
    return tuple(
        [
            # NVML gives integers: the type is looked at first, without a call.
            _short(column) if column and type(column[0]) is float else column
            for column in changes
        ]
    )


def _short(column: Column) -> Column:
    """Return the column with whole numbers as integers, which take one byte instead of nine."""
    first = column[0]
    if not isinstance(first, float) or not first.is_integer():
        return column
    try:
        whole = tuple(map(int, column))
    except (TypeError, ValueError, OverflowError):  # one is not measured, or not a number
        return column
    return whole if whole == column and max(map(abs, whole)) < _MAX_SHORT else column


@cache
def _decoder(version: int = COMPACT_VERSION, gpu_columns: int = len(GPU_FIELDS)) -> Any:
    """Return the decoder of compact reports; built on first use: agents need none."""
    time, sequence = _limited("taken_at", float), _limited("sequence", int)
    types = {
        "version": Annotated[int, Meta(ge=version, le=version)],
        "sent_at": time,
        "hub": Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)],
        "run": Annotated[int, Meta(ge=0, le=(1 << 32) - 1)],
        "base": sequence,
        "sequence": sequence,
        "taken_at": time,
        "host": _row(_values(HostFigures, {})) | None,
        "gpus": _columns(GpuFigures, GPU_CODES, MAX_ITEMS["gpus"], gpu_columns),
        "instances": _columns(InstanceFigures, {}, MAX_ITEMS["gpus"] * MAX_ITEMS["instances"]),
        "processes": _columns(ProcessFigures, PROCESS_CODES, _MAX_PROCESSES),
        "run_seconds": _column(_limited("seconds", float), MAX_ITEMS["runs"]),
    }
    report_type = msgspec.defstruct(
        CompactReport.__name__,
        # Without defaults: one that is cut short breaks off, and does not say "as before".
        [*types.items()],
        bases=(CompactReport,),
        array_like=True,
        frozen=True,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=True,
    )
    return msgspec.msgpack.Decoder(report_type)


def _limited(field: str, kind: Any) -> Any:
    low, high = FIELD_RANGES[field]
    return Annotated[kind, Meta(ge=low, le=high)]


def _values(figures: type[Struct], codes: dict[int, FigureCode]) -> list[Any]:
    """Return the type of each field's values, with its limits."""
    return [
        (
            Annotated[int, Meta(ge=0, le=codes[position].highest)]
            if position in codes
            else _limited(field.name, unwrap_optional(field.type))
        )
        | None
        for position, field in enumerate(fields(figures))
    ]


def _row(types: Sequence[Any]) -> Any:
    return GenericAlias(tuple, tuple(types))


def _columns(
    figures: type[Struct], codes: dict[int, FigureCode], max_items: int, count: int | None = None
) -> Any:
    """Return the type of the columns of these figures, or of the first `count` of them."""
    return _row([_column(each, max_items) for each in _values(figures, codes)[:count]]) | None


def _column(value: Any, max_items: int) -> Any:
    return Annotated[GenericAlias(tuple, (value, ...)), Meta(max_length=max_items)] | None
