"""Cell texts of one GPU or MIG instance, independent of the table layout."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.figures import GPU_FIGURES, Unit
from fleet_smi.model.fleet import JudgedGpu, JudgedInstance, State
from fleet_smi.model.people import compute_or_all_processes
from fleet_smi.model.units import UNKNOWN, format_gib
from fleet_smi.terminal.view.formatting import format_percent, short_model
from fleet_smi.terminal.view.holder import TextVariants, holder_variants

OptionalNumber = int | float | None


class MemoryCell(Struct, frozen=True):
    """Used and total memory as text, and the used fraction."""

    used: str = UNKNOWN
    total: str = ""
    share: float | None = None
    shared: bool = False

    @property
    def is_known(self) -> bool:
        return bool(self.total) or self.used != UNKNOWN


class GpuRow(Struct, frozen=True):
    """The cells of one row; `profile` is set for a MIG instance, `gpu` for a whole GPU.

    A cell is formatted when its column is added: most columns do not fit most terminals.
    """

    index: str
    state: State
    cells: dict[str, str]
    memory: MemoryCell
    holder: TextVariants
    profile: str | None = None
    gpu: JudgedGpu | None = None

    @property
    def is_blank(self) -> bool:
        """Whether nothing could be measured."""
        if self.memory.is_known:
            return False
        shown = (self.cells.get(name, UNKNOWN) for name in ("UTIL", "TEMP", "POWER"))
        return all(cell == UNKNOWN for cell in shown)


def _pcie(gpu: JudgedGpu) -> str:
    if gpu.pcie_generation is None or gpu.pcie_width is None:
        return UNKNOWN
    return f"gen{gpu.pcie_generation}×{gpu.pcie_width}"


def _container(gpu: JudgedGpu) -> str:
    # Most processes are in none: not worth finding out which of them compute.
    if not any(process.pod or process.container for process in gpu.processes or ()):
        return ""
    # A dict instead of a set: it keeps the order of the processes.
    names = dict.fromkeys(
        name
        for process in compute_or_all_processes(gpu.processes or ())
        if (name := process.pod or process.container)
    )
    return " ".join(names)


def _model(gpu: JudgedGpu) -> str:
    return short_model(gpu.name) if gpu.name else UNKNOWN


def _number_format(unit: Unit) -> Callable[[OptionalNumber], str]:
    if unit == "percent":
        return format_percent
    suffix = {"celsius": "°", "watts": " W", "megahertz": " MHz"}.get(unit, "")
    return lambda value: UNKNOWN if value is None else f"{value:.0f}{suffix}"


class _Figure(NamedTuple):
    """A column with one number: how it is read and formatted."""

    read: Callable[[JudgedGpu], OptionalNumber]
    format: Callable[[OptionalNumber], str]


_FIGURES = {
    figure.table: _Figure(attrgetter(figure.field), _number_format(figure.unit))
    for figure in GPU_FIGURES
    if figure.table
}
_TEXTS: dict[str, Callable[[JudgedGpu], str]] = {
    "PCIE": _pcie,
    "PERF": lambda gpu: gpu.performance_state or UNKNOWN,
    "MODEL": _model,
    "CONTAINER": _container,
}
TABLE_COLUMNS = {*_FIGURES, *_TEXTS}


def gpu_row(gpu: JudgedGpu, *, show_model: bool) -> GpuRow:
    """Return the row of a GPU, without the cells of other columns than its model."""
    return GpuRow(
        index=str(gpu.index),
        state=gpu.verdict.state,
        cells={"MODEL": _model(gpu)} if show_model else {},
        memory=memory_cell(gpu.memory_used_bytes, gpu.memory_total_bytes, shared=gpu.memory_shared),
        holder=holder_variants(gpu),
        gpu=gpu,
    )


def add_column(rows: Iterable[GpuRow], name: str) -> set[str]:
    """Format the cells of one more column, and return its distinct texts."""
    if name in _FIGURES:
        return _add_figure(rows, name, _FIGURES[name])
    format_cell, texts = _TEXTS[name], set[str]()
    for row in rows:
        if row.gpu is not None:
            text = row.cells[name] = format_cell(row.gpu)
            texts.add(text)
    return texts


def _add_figure(rows: Iterable[GpuRow], name: str, figure: _Figure) -> set[str]:
    # Each value is formatted once: a large table has few different ones.
    texts: dict[OptionalNumber, str] = {}
    read, format_value = figure
    for row in rows:
        if row.gpu is not None:
            value = read(row.gpu)
            text = texts.get(value)
            if text is None:
                text = texts[value] = format_value(value)
            row.cells[name] = text
    return {*texts.values()}


def instance_row(instance: JudgedInstance, number: int) -> GpuRow:
    """Return the row of a MIG instance; what is measured of the whole GPU stays empty."""
    return GpuRow(
        index=f":{number}",
        state=instance.verdict.state,
        cells={"UTIL": format_percent(instance.busy_percent)},
        memory=memory_cell(instance.memory_used_bytes, instance.memory_total_bytes, shared=False),
        holder=holder_variants(instance),
        profile=instance.profile or "MIG",
    )


def memory_cell(used: int | None, total: int | None, *, shared: bool) -> MemoryCell:
    """Return memory as text in GiB: "60.0" of "79.6", or the part that is known."""
    return MemoryCell(
        used=UNKNOWN if used is None else format_gib(used),
        total="" if total is None else format_gib(total),
        # Clamped: a bar longer than its column would shift the rest of the row.
        share=min(1.0, max(0.0, used / total)) if used is not None and total else None,
        shared=shared,
    )
