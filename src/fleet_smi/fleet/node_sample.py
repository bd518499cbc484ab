"""The latest sample of one node: a snapshot, or newer figures for an older one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.snapshot_figures import (
    GPU_FIELDS,
    PROCESS_FIELDS,
    MemoryLimits,
    SnapshotFigures,
    figures_of,
    list_processes,
    memory_limits,
    with_figures,
)
from fleet_smi.model.verdict.throttling import throttle_kind

if TYPE_CHECKING:
    from fleet_smi.fleet.node_columns import NodeColumns

_THROTTLES = GPU_FIELDS.index("throttle_reasons")
# The figures of a process that its summary depends on (`model/verdict/process_group.py`).
_MEMORY, _CONDITION = PROCESS_FIELDS.index("gpu_memory_bytes"), PROCESS_FIELDS.index("condition")


class PackedSample(NamedTuple):
    """A packed report, whose numbers are all within their limits; `at` is by the hub's clock."""

    body: bytes
    sequence: int
    taken_at: float
    at: float


class NodeSample:
    """The content of the latest report of a node.

    `base` is a snapshot that has all of it but its figures, which may be older. The snapshot with
    the latest figures is made when it is needed: most reports differ in figures alone, and nobody
    looks at most of them. `columns` have some of the figures, if they came packed.
    """

    __slots__ = (
        "_figures",
        "_first",
        "_limits",
        "_packed",
        "_snapshot",
        "base",
        "columns",
        "sequence",
        "taken_at",
    )

    def __init__(
        self,
        base: Snapshot,
        figures: SnapshotFigures | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        self.base = base
        self._limits = limits
        self._figures = figures
        self._snapshot = base if figures is None else None
        self.columns: NodeColumns | None = None
        self._packed: bytes | None = None
        self._first: SnapshotFigures | None = None  # without those of the packed report
        self.taken_at = base.taken_at if figures is None else figures.taken_at
        self.sequence = base.sequence if figures is None else figures.sequence

    @property
    def run_id(self) -> str | None:
        """The run of the agent that took it."""
        return self.base.run_id

    def followed_by(self, figures: SnapshotFigures) -> "NodeSample":
        """Return the next sample, in which only figures differ from this one."""
        return NodeSample(self.base, figures, self._limits)

    def advance(self, packed: PackedSample, columns: "NodeColumns | None") -> tuple[float, int]:
        """Become the next sample, by a packed report that has all columns of the one before.

        It is unpacked when somebody reads figures that are not in the columns of its node. Return
        when it was taken, by the hub's clock, and its number.
        """
        self.columns = columns
        if self._first is None:
            self._first = self.figures
        self._packed, self.sequence, self.taken_at, at = packed
        self._figures = self._snapshot = None
        return at, self.sequence

    def followed_by_packed(self) -> "NodeSample":
        """Return one more of this sample, to be advanced: this one stays as it is."""
        after = NodeSample(self.base, self._figures, self._limits)
        after._first, after._packed, after.columns = self._first, self._packed, self.columns
        after._snapshot, after.taken_at, after.sequence = (
            self._snapshot,
            self.taken_at,
            self.sequence,
        )
        return after

    @property
    def limits(self) -> MemoryLimits:
        """The limits of the memory in use, which all samples have that follow by figures."""
        if self._limits is None:
            self._limits = memory_limits(self.base)
        return self._limits

    @property
    def snapshot(self) -> Snapshot:
        """The sample as a snapshot."""
        if self._snapshot is None:
            self.base = self._snapshot = with_figures(self.base, self.figures)
        return self._snapshot

    @property
    def figures(self) -> SnapshotFigures:
        """The figures of the sample."""
        if self._figures is None:
            if self._first is None or self._packed is None:
                self._figures = figures_of(self.base)
            else:
                # Here: only a hub gets packed reports, and commands have no use for their codec.
                from fleet_smi.wire.packed import merge_packed

                self._figures = merge_packed(self._first, self._packed, self.limits)
        return self._figures

    @property
    def newer_figures(self) -> SnapshotFigures | None:
        """The figures, where no snapshot has been made of them."""
        return self.figures if self._snapshot is None else None

    def refresh_gpus(self, positions: Sequence[int]) -> tuple[Gpu, ...]:
        """Return the GPUs of the base, after those at these positions got the latest figures."""
        if self._snapshot is not None or self.figures.instances[0]:
            return self.snapshot.gpus
        gpus, ranges = [*self.base.gpus], list(self._process_ranges())
        for position in positions:
            gpus[position] = self._gpu(position, ranges[position])
        self.base = replace(self.base, gpus=tuple(gpus))
        return self.base.gpus

    def changed_uses(self, before: "NodeSample") -> list[int]:
        """Return the positions of GPUs that need a full judgement, whatever they read.

        Their processes are judged otherwise than in the sample before, or they are slowed down.
        """
        old, new, changed = before.figures, self.figures, list[int]()
        throttles = new.gpus[_THROTTLES]
        if throttles is not old.gpus[_THROTTLES]:
            changed += [
                position for position, reasons in enumerate(throttles) if is_slowed(reasons)
            ]
        old_memory, new_memory = old.processes[_MEMORY], new.processes[_MEMORY]
        old_conditions, new_conditions = old.processes[_CONDITION], new.processes[_CONDITION]
        # A column that was not sent is that of the sample before.
        if old_memory is new_memory and old_conditions is new_conditions:
            return changed
        if old_memory != new_memory or old_conditions != new_conditions:
            changed += [
                position
                for position, own in enumerate(self._process_ranges())
                if old_memory[own] != new_memory[own] or old_conditions[own] != new_conditions[own]
            ]
        return changed

    def _process_ranges(self) -> Iterator[slice]:
        """Yield where the processes of each GPU are in the columns, without those of instances."""
        start = 0
        for gpu in self.base.gpus:
            yield slice(start, start + len(gpu.processes or ()))
            start += len(list_processes((gpu,)) if gpu.instances else gpu.processes or ())

    def _gpu(self, position: int, own: slice) -> Gpu:
        """Return a GPU without instances."""
        gpu = self.base.gpus[position]
        fields = {
            field: column[position]
            for field, column in zip(GPU_FIELDS, self.figures.gpus, strict=True)
        }
        if gpu.processes:
            rows = zip(*[column[own] for column in self.figures.processes], strict=True)
            fields["processes"] = tuple(
                [
                    replace(process, **dict(zip(PROCESS_FIELDS, row, strict=True)))
                    for process, row in zip(gpu.processes, rows, strict=True)
                ]
            )
        return replace(gpu, **fields)


def is_slowed(throttle_reasons: tuple[str, ...] | None) -> bool:
    """Return whether one of the reasons slows a GPU down."""
    return bool(throttle_reasons) and throttle_kind(throttle_reasons or ()) is not None
