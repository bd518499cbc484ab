"""The layout of a packed report: its head, and the columns of numbers that may follow.

A column is narrow, where all its values are whole numbers of a unit and take four bytes each, or
wide, with eight-byte floats. Which are there, and how, is in two masks of the head.
"""

import struct
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from fleet_smi.model.snapshot_figures import GpuFigures, HostFigures, ProcessFigures
from fleet_smi.wire.figure_codes import GPU_CODES, PROCESS_CODES, FigureCode
from fleet_smi.wire.limits import FIELD_RANGES, unwrap_optional

PACKED_VERSION, OLDER_PACKED_VERSION = 5, 3
PACKED_MARK = 0xC1  # begins nothing in msgpack
NOT_MEASURED = 0xFFFF_FFFF
"""Of a narrow column; that of a wide one is NaN."""
HUB_AT, HUB_BYTES = 24, 24
SEQUENCE_AT = HUB_AT + HUB_BYTES

HEAD = struct.Struct(f"<BBHHBxdd{HUB_BYTES}sQIIII")
"""Mark and version; the numbers of GPUs, processes and collectors; when it was sent and taken; the
hub of the last receipt; its own number, and how far back that of its base is; the checksum of its
run; the masks of narrow and wide columns."""

# Units by field: a narrow value times the first number, divided by the second. Others are whole.
_UNITS = {
    "load_1_minute": (1, 100),
    "load_5_minutes": (1, 100),
    "load_15_minutes": (1, 100),
    "cpu_percent": (1, 10),
    "seconds": (1, 1_000_000),
    "memory_used_bytes": (1024, 1),
    "gpu_memory_bytes": (1024, 1),
    "host_memory_bytes": (1024, 1),
    "power_watts": (1, 1000),
    "energy_joules": (1, 1000),
    "pcie_rx_bytes_per_second": (1000, 1),
    "pcie_tx_bytes_per_second": (1000, 1),
    "nvlink_rx_bytes_per_second": (1024, 1),
    "nvlink_tx_bytes_per_second": (1024, 1),
}


class PackedColumn(NamedTuple):
    """One column: its values are between `low` and `high`, and narrow ones times a unit."""

    is_whole: bool
    factor: int
    divisor: int
    low: float
    high: float


def _column(field: str, kind: object, code: FigureCode | None = None) -> PackedColumn:
    if code is not None:
        return PackedColumn(True, 1, 1, 0, code.highest)  # noqa: FBT003
    return PackedColumn(kind is int, *_UNITS.get(field, (1, 1)), *FIELD_RANGES[field])


def _columns(figures: type[Struct], codes: dict[int, FigureCode]) -> list[PackedColumn]:
    return [
        _column(field.name, unwrap_optional(field.type), codes.get(position))
        for position, field in enumerate(fields(figures))
    ]


_HOST, _GPUS = _columns(HostFigures, {}), _columns(GpuFigures, GPU_CODES)
_PROCESSES = _columns(ProcessFigures, PROCESS_CODES)
PACKED_COLUMNS = (*_HOST, _column("seconds", float), *_GPUS, *_PROCESSES)
RUNS_AT = len(_HOST)
GPUS_AT = RUNS_AT + 1
PROCESSES_AT = GPUS_AT + len(_GPUS)
"""All columns in order, and where those of collectors, GPUs and processes begin."""
