"""The compact report, version 4: the figures of one snapshot that differ from those of its base.

The base is the last snapshot that the hub has acknowledged: by its run and its number both ends
know which one that is. Figures are columns, as in `model/snapshot_figures.py`; a column that is
`None` is that of the base. `compact_codec.py` has its bytes.
"""

from functools import lru_cache
from typing import NamedTuple, Protocol
from zlib import crc32

from msgspec import Struct

from fleet_smi.errors import NeedsFullReport
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import (
    GPU_FIELDS,
    INSTANCE_FIELDS,
    PROCESS_FIELDS,
    Column,
    Columns,
    MemoryLimits,
    SnapshotFigures,
    figures_of,
    list_instances,
    list_processes,
    memory_limits,
    with_columns,
    with_node_figures,
)
from fleet_smi.model.static_part import static_part
from fleet_smi.wire.figure_codes import GPU_CODES, PROCESS_CODES, FigureCode, NoCode

COMPACT_VERSION, OLDER_COMPACT_VERSION = 4, 2
OLDER_GPU_COLUMNS = 19
"""How many figures of a GPU older agents know: reports of version 2, and packed ones of 3."""
_GPU_MEMORY = GPU_FIELDS.index("memory_used_bytes")
_INSTANCE_MEMORY = INSTANCE_FIELDS.index("memory_used_bytes")

Changes = tuple[Column | None, ...]
"""For each column its values, or `None` where they are those of the base."""


class CompactReport(Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """The figures of one snapshot that differ from those of its base.

    `run` is the checksum of the run id that both have, `base` the number of the base.
    """

    version: int = COMPACT_VERSION
    sent_at: float = 0.0
    hub: str = ""
    run: int
    base: int
    sequence: int
    taken_at: float
    host: Column | None = None
    gpus: Changes | None = None
    instances: Changes | None = None
    processes: Changes | None = None
    run_seconds: Column | None = None


_NOTHING_SENT = CompactReport(run=0, base=0, sequence=0, taken_at=0.0)


class SnapshotParts(NamedTuple):
    """A snapshot for the comparison with another one: what is no figure, and the figures."""

    run_id: str | None
    static: tuple[object, ...]
    figures: SnapshotFigures


def split(snapshot: Snapshot) -> SnapshotParts:
    """Return the parts of a snapshot that `compact_parts` compares."""
    processes = list_processes(snapshot.gpus)
    static, figures = static_part(snapshot, processes), figures_of(snapshot, processes)
    return SnapshotParts(snapshot.run_id, static, figures)


def compact(base: Snapshot, now: Snapshot) -> CompactReport | None:
    """Return what differs; `None` where that is not only figures, so that it is sent in full."""
    return compact_parts(split(base), split(now))


def compact_parts(
    base: SnapshotParts, now: SnapshotParts, previous: CompactReport | None = None
) -> CompactReport | None:
    """Like `compact`, of snapshots that are split: the base was already, when it was sent.

    Columns that the `previous` report had are there again, whether they differ or not: a hub reads
    reports of the same columns with less work.
    """
    if now.run_id is None or base.static != now.static:
        return None
    old, new, last = base.figures, now.figures, previous or _NOTHING_SENT
    try:
        return CompactReport(
            run=run_checksum(now.run_id),
            base=old.sequence,
            sequence=new.sequence,
            taken_at=new.taken_at,
            host=None if old.host == new.host and last.host is None else new.host,
            gpus=_changes(old.gpus, new.gpus, GPU_CODES, last.gpus),
            instances=_changes(old.instances, new.instances, {}, last.instances),
            processes=_changes(old.processes, new.processes, PROCESS_CODES, last.processes),
            run_seconds=(
                None
                if old.run_seconds == new.run_seconds and last.run_seconds is None
                else new.run_seconds
            ),
        )
    except NoCode:
        return None


def merge(base: SnapshotFigures, report: CompactReport, limits: MemoryLimits) -> SnapshotFigures:
    """Return the figures of a compact report; raise `NeedsFullReport` if they do not fit the base.

    The columns of the base are shared, and no snapshot is made. The limits are those of the base.
    """
    _check_memory_limits(report, limits)
    _check_runs(report, len(base.run_seconds))
    return SnapshotFigures(
        taken_at=report.taken_at,
        sequence=report.sequence,
        host=base.host if report.host is None else report.host,
        gpus=_merged(base.gpus, report.gpus, GPU_CODES),
        instances=_merged(base.instances, report.instances, {}),
        processes=_merged(base.processes, report.processes, PROCESS_CODES),
        run_seconds=base.run_seconds if report.run_seconds is None else report.run_seconds,
    )


def expand(base: Snapshot, report: CompactReport) -> Snapshot:
    """Return the snapshot of a compact report; raise `NeedsFullReport` if it does not fit."""
    sizes = len(base.gpus), len(list_instances(base.gpus)), len(list_processes(base.gpus))
    _check_memory_limits(report, memory_limits(base))
    gpus = _decoded(report.gpus, sizes[0], GPU_CODES)
    instances = _decoded(report.instances, sizes[1], {})
    processes = _decoded(report.processes, sizes[2], PROCESS_CODES)
    changed = with_columns(
        base,
        _named(GPU_FIELDS, gpus),
        _named(INSTANCE_FIELDS, instances),
        _named(PROCESS_FIELDS, processes),
    )
    _check_runs(report, len(base.runs))
    return with_node_figures(
        changed, report.taken_at, report.sequence, report.host, report.run_seconds
    )


class NumberedSample(Protocol):
    """A sample that is known by its run and its number."""

    @property
    def run_id(self) -> str | None:
        """The run of the agent that took it."""

    @property
    def sequence(self) -> int:
        """Its number in that run."""


def builds_on(report: CompactReport, base: NumberedSample) -> bool:
    """Return whether a sample is the base of a compact report."""
    return (
        base.sequence == report.base
        and base.run_id is not None
        and run_checksum(base.run_id) == report.run
    )


@lru_cache(maxsize=1 << 15)  # more than a hub has nodes
def run_checksum(run_id: str) -> int:
    """Return the checksum of a run id, which takes less room than the id."""
    return crc32(run_id.encode())


def _changes(
    old: Columns, new: Columns, codes: dict[int, FigureCode], sent: Changes | None
) -> Changes | None:
    changed: list[Column | None] = [
        None if before == after and last is None else after
        for before, after, last in zip(old, new, sent or (None,) * len(new), strict=True)
    ]
    if not any(changed):
        return None
    for position, code in codes.items():
        if (column := changed[position]) is not None:
            changed[position] = code.encode_column(column)
    return tuple(changed)


def _merged(columns: Columns, changes: Changes | None, codes: dict[int, FigureCode]) -> Columns:
    """Return the columns with those that changed, of as many values."""
    if changes is None:
        return columns
    size, merged = len(columns[0]), [*columns]
    for position, column in enumerate(changes):
        if column is not None:
            if len(column) != size:
                raise NeedsFullReport(f"a figure of {len(column)} instead of {size}")
            code = codes.get(position)
            merged[position] = column if code is None else code.decode_column(column)
    return tuple(merged)


def _named(fields: tuple[str, ...], changes: Changes | None) -> dict[str, Column]:
    """Return the columns that changed, by the names of their fields."""
    if changes is None:
        return {}
    return {
        field: column for field, column in zip(fields, changes, strict=True) if column is not None
    }


def _decoded(changes: Changes | None, size: int, codes: dict[int, FigureCode]) -> Changes | None:
    """Return the changes with their codes decoded, each of as many values as `size`."""
    if changes is None:
        return None
    nothing: Columns = ((None,) * size,) * len(changes)
    merged = _merged(nothing, changes, codes)
    return tuple([None if old is None else new for old, new in zip(changes, merged, strict=True)])


def _check_memory_limits(report: CompactReport, limits: MemoryLimits) -> None:
    if report.gpus is not None and (used := report.gpus[_GPU_MEMORY]) is not None:
        _check_memory(used, limits.gpus)
    if report.instances is not None and (used := report.instances[_INSTANCE_MEMORY]) is not None:
        _check_memory(used, limits.instances)


def _check_memory(column: Column, limits: Column) -> None:
    """Refuse more memory in use than there is: in a full report it becomes unknown."""
    for used, limit in zip(column, limits, strict=False):
        if used is not None and limit is not None and used > limit:
            raise NeedsFullReport("more memory in use than there is")


def _check_runs(report: CompactReport, count: int) -> None:
    if report.run_seconds is not None and len(report.run_seconds) != count:
        raise NeedsFullReport(f"{len(report.run_seconds)} collectors instead of {count}")
