"""The tables of cluster-smi: that of 2018, and that of 2019 with its processes and details."""

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct

from fleet_smi.compat.cluster_smi.box_table import Align, BoxCell, BoxRow, Colorizer, render_box
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.merge import all_processes
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import MIB
from fleet_smi.terminal.view.formatting import ToLocalTime, to_local_time

_HEADS = ("Node", "Gpu", "Memory-Usage", "GPU-Util")
_DETAILS = ("Fan", "Temp", "Power")
_PROCESSES = ("PID", "User", "Command", "GPU Mem", "Runtime")
_LAST_SEEN = "Last Seen"
_HEADS_OF_2018 = ("Node", "Gpu", "Memory-Usage", "Mem-Util", "GPU-Util")
_LONGEST_COMMAND = 55
_UNKNOWN = "?"
_GREEN, _YELLOW, _RESET = "\x1b[0;32m", "\x1b[0;33m", "\x1b[0m"
_WITHOUT_GPU = "no GPU"
_ADDRESS = " (http://github.com/patwie/cluster-smi)"


class TableOptions(Struct, frozen=True, kw_only=True):
    """What the flags of cluster-smi ask for; rows of `own_user` are marked."""

    processes: bool = False
    last_seen: bool = False
    full_commands: bool = False
    details: bool = False
    colour: bool = False
    highlighted_user: str | None = None


def render(view: FleetView, options: TableOptions, local: ToLocalTime = to_local_time) -> str:
    """The table of 2019 under the moment that it shows."""
    heads = [*_HEADS]
    heads += _DETAILS if options.details else ()
    heads += _PROCESSES if options.processes else ()
    heads += [_LAST_SEEN] if options.last_seen else ()
    groups = [list(_node_rows(node, view.taken_at, options, local)) for node in view.nodes]
    return f"{_moment(view.taken_at, local)}{_ADDRESS}\n{render_box(heads, groups)}"


def render_status(view: FleetView, *, colour: bool) -> str:
    """Render the table of cluster-smi 2018, which has no colours; faults go in the GPU column."""
    return render_box(_HEADS_OF_2018, [list(_rows_of_2018(node)) for node in view.nodes])


def _rows_of_2018(node: NodeView) -> Iterator[BoxRow]:
    if (words := _instead_of_gpus(node)) is not None:
        yield [BoxCell(node.name), BoxCell(words), BoxCell(""), BoxCell(""), BoxCell("")]
        return
    for at, gpu in enumerate(node.gpus):
        memory = f"{_mib(gpu.memory_used_bytes)}MiB / {_mib(gpu.memory_total_bytes)}MiB"
        yield [
            BoxCell("" if at else node.name),
            BoxCell(f"{gpu.index}: {_named(gpu)}"),
            BoxCell(memory, "right"),
            BoxCell(f"{_memory_percent(gpu)}%"),
            BoxCell(f"{_whole(gpu.busy_percent)}%"),
        ]


def _node_rows(
    node: NodeView, now: float, wanted: TableOptions, local: ToLocalTime
) -> Iterator[BoxRow]:
    """The rows of a node; its name and the time of its news stand in the first alone."""
    seen = "" if node.age_seconds is None else _moment(now - node.age_seconds, local)
    name = node.name
    for cells in _rows(node, wanted):
        times = [BoxCell(seen)] if wanted.last_seen else []
        yield [BoxCell(name), *cells, *times]
        name = seen = ""


def _rows(node: NodeView, wanted: TableOptions) -> Iterator[list[BoxCell]]:
    if (words := _instead_of_gpus(node)) is not None:
        yield [BoxCell(words), *_blank(2), *_blank(_further_columns(wanted))]
        return
    for gpu in node.gpus:
        cells = _gpu_cells(gpu, wanted)
        for people in _people(gpu, node.taken_at, wanted):
            yield [*cells, *people]
            cells = _blank(len(cells))


def _further_columns(wanted: TableOptions) -> int:
    return len(_DETAILS) * wanted.details + len(_PROCESSES) * wanted.processes


def _instead_of_gpus(node: NodeView) -> str | None:
    if node.silent:
        return "Offline"
    return None if node.gpus else _WITHOUT_GPU


def _gpu_cells(gpu: JudgedGpu, wanted: TableOptions) -> list[BoxCell]:
    is_free = gpu.verdict.state == "free"
    paint: Colorizer | None = partial(_painted, _GREEN) if is_free and wanted.colour else None
    memory = (
        f"{_mib(gpu.memory_used_bytes)} MiB / {_mib(gpu.memory_total_bytes)} MiB "
        f"({_memory_percent(gpu):>3} %)"
    )
    align: Align = "centre" if wanted.processes else "left"
    cells = [
        BoxCell(f"{gpu.index}:{_named(gpu)}", colorizer=paint),
        BoxCell(memory, "right"),
        BoxCell(f"{_whole(gpu.busy_percent):>3} %", align),
    ]
    if wanted.details:
        cells += [
            BoxCell(f"{_whole(gpu.fan_percent):>3} %"),
            BoxCell(f"{_whole(gpu.temperature_celsius):>3} C"),
            BoxCell(f"{_whole(gpu.power_watts):>3}W"),
        ]
    return cells


def _people(
    gpu: JudgedGpu, taken_at: float | None, wanted: TableOptions
) -> Iterator[list[BoxCell]]:
    """The cells of each process on a GPU; one line without any where nobody is known."""
    if not wanted.processes:
        yield []
        return
    processes = [one for one in all_processes(gpu) if one.kind != "graphics"]
    if not processes:
        unread = gpu.processes is None and not gpu.instances
        yield [BoxCell(""), BoxCell(_UNKNOWN if unread else ""), *_blank(3)]
    for process in processes:
        mine = wanted.highlighted_user is not None and process.user == wanted.highlighted_user
        paint = partial(_painted, _YELLOW) if mine and wanted.colour else None
        yield [
            BoxCell(text, align, paint)
            for text, align in _process_texts(process, taken_at, wanted.full_commands)
        ]


def _process_texts(
    process: Process, taken_at: float | None, whole: bool
) -> Sequence[tuple[str, Align]]:
    command = (process.command if whole else None) or process.name or _UNKNOWN
    known = taken_at is not None and process.started_at is not None
    seconds = int((taken_at or 0.0) - (process.started_at or 0.0)) if known else None
    return (
        (_UNKNOWN if process.pid_is_made else str(process.pid), "left"),
        (process.user or _UNKNOWN, "left"),
        (command[:_LONGEST_COMMAND], "left"),
        (f"{_mib(process.gpu_memory_bytes)} MiB", "right"),
        (_runtime(seconds), "right"),
    )


def _blank(count: int) -> list[BoxCell]:
    return [BoxCell("")] * count


def _painted(colour: str, text: str) -> str:
    return f"{colour}{text}{_RESET}" if text else text


def _named(gpu: JudgedGpu) -> str:
    name = gpu.name or "GPU"
    return name if gpu.fault is None else f"{name} ({gpu.fault.kind.replace('_', ' ')})"


def _mib(count: int | None) -> str:
    return _UNKNOWN if count is None else str(count // MIB)


def _memory_percent(gpu: JudgedGpu) -> str:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return _UNKNOWN if used is None or not total else str(used * 100 // total)


def _whole(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}"


def _runtime(seconds: int | None) -> str:
    """Days, hours, minutes and seconds, each in its place; leading zeros are left out."""
    if seconds is None:
        return _UNKNOWN
    seconds = max(0, seconds)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    parts = (
        (days, f"{days:3} d "),
        (hours, f"{hours % 24:2} h "),
        (minutes, f"{minutes % 60:2} min "),
    )
    shown = [text if whole else " " * len(text) for whole, text in parts]
    return f"{''.join(shown)}{seconds % 60:2} sec"


def _moment(at: float, local: ToLocalTime) -> str:
    then = local(at)
    return f"{then:%a %b} {then.day} {then:%H:%M:%S %Y}"
