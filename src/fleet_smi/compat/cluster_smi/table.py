"""Text tables of cluster-smi: the one of 2018, and that of 2019 with processes and details."""

from collections.abc import Iterator, Sequence
from html import escape

from msgspec import Struct

from fleet_smi.compat.cluster_smi.box_table import (
    Align,
    BoxCell,
    BoxRow,
    Colour,
    render_box,
    render_html,
)
from fleet_smi.compat.cluster_smi.encode import last_seen_at
from fleet_smi.model.driver_failure import driver_failure
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.merge import all_processes
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import MIB
from fleet_smi.terminal.view.formatting import ToLocalTime, to_local_time

_HEADERS = ("Node", "Gpu", "Memory-Usage", "GPU-Util")
_DETAILS = ("Fan", "Temp", "Power")
_PROCESSES = ("PID", "User", "Command", "GPU Mem", "Runtime")
_LAST_SEEN = "Last Seen"
_HEADERS_2018 = ("Node", "Gpu", "Memory-Usage", "Mem-Util", "GPU-Util")
_MAX_COMMAND_LENGTH = 55
_UNKNOWN = "?"
_NO_GPU = "no GPU"
_ADDRESS = " (http://github.com/patwie/cluster-smi)"


class TableOptions(Struct, frozen=True, kw_only=True):
    """Display options, by the flags of cluster-smi; rows of `highlighted_user` are coloured."""

    processes: bool = False
    last_seen: bool = False
    full_commands: bool = False
    details: bool = False
    colour: bool = False
    highlighted_user: str | None = None


def render(view: FleetView, options: TableOptions, local: ToLocalTime = to_local_time) -> str:
    """Render the table of 2019, headed by its time."""
    table = render_box(_headers(options), _groups(view, options, local))
    return f"{_format_time(view.taken_at, local)}{_ADDRESS}\n{table}"


def render_page(view: FleetView, options: TableOptions, local: ToLocalTime = to_local_time) -> str:
    """Render the same table in HTML, to be included in a page."""
    time = escape(f"{_format_time(view.taken_at, local)}{_ADDRESS}")
    return f"<p>{time}</p>\n{render_html(_headers(options), _groups(view, options, local))}"


def _headers(options: TableOptions) -> list[str]:
    headers = [*_HEADERS]
    headers += _DETAILS if options.details else ()
    headers += _PROCESSES if options.processes else ()
    headers += [_LAST_SEEN] if options.last_seen else ()
    return headers


def _groups(view: FleetView, options: TableOptions, local: ToLocalTime) -> list[list[BoxRow]]:
    # As text, as in cluster-smi: gpu10 is before gpu2.
    nodes = sorted(view.nodes, key=lambda node: node.name)
    return [list(_node_rows(node, view.taken_at, options, local)) for node in nodes]


def render_status(view: FleetView, *, colour: bool) -> str:
    """Render the table of cluster-smi 2018, which has no colours; faults go in the GPU column."""
    return render_box(_HEADERS_2018, [list(_rows_2018(node)) for node in view.nodes])


def _rows_2018(node: NodeView) -> Iterator[BoxRow]:
    if (placeholder := _placeholder(node)) is not None:
        yield [BoxCell(node.name), BoxCell(placeholder), BoxCell(""), BoxCell(""), BoxCell("")]
        return
    for position, gpu in enumerate(node.gpus):
        memory = f"{_mib(gpu.memory_used_bytes)}MiB / {_mib(gpu.memory_total_bytes)}MiB"
        yield [
            BoxCell("" if position else node.name),
            BoxCell(f"{gpu.index}: {_gpu_name(gpu)}"),
            BoxCell(memory, "right"),
            BoxCell(f"{_memory_percent(gpu)}%"),
            BoxCell(f"{_round(gpu.busy_percent)}%"),
        ]


def _node_rows(
    node: NodeView, now: float, options: TableOptions, local: ToLocalTime
) -> Iterator[BoxRow]:
    """Yield the rows of a node; its name and time are in the first row only."""
    seen_at = last_seen_at(node, now)
    seen = "" if seen_at is None else _format_time(seen_at, local)
    name = node.name
    for cells in _rows(node, options):
        times = [BoxCell(seen)] if options.last_seen else []
        yield [BoxCell(name), *cells, *times]
        name = seen = ""


def _rows(node: NodeView, options: TableOptions) -> Iterator[list[BoxCell]]:
    if (placeholder := _placeholder(node)) is not None:
        yield [BoxCell(placeholder), *_blank(2), *_blank(_extra_column_count(options))]
        return
    for gpu in node.gpus:
        cells = _gpu_cells(gpu, options)
        for process_cells in _process_rows(gpu, node.taken_at, options):
            yield [*cells, *process_cells]
            cells = _blank(len(cells))


def _extra_column_count(options: TableOptions) -> int:
    return len(_DETAILS) * options.details + len(_PROCESSES) * options.processes


def _placeholder(node: NodeView) -> str | None:
    """Return the text that a node has in place of GPUs; `None` if its GPUs are shown."""
    if node.silent:
        return "Offline"
    if node.gpus:
        return None
    failed = driver_failure(node)
    return _NO_GPU if failed is None else f"driver {(failed.fault or 'error').replace('_', ' ')}"


def _gpu_cells(gpu: JudgedGpu, options: TableOptions) -> list[BoxCell]:
    is_free = gpu.verdict.state == "free"
    colour: Colour | None = "green" if is_free and options.colour else None
    memory = (
        f"{_mib(gpu.memory_used_bytes)} MiB / {_mib(gpu.memory_total_bytes)} MiB "
        f"({_memory_percent(gpu):>3} %)"
    )
    align: Align = "centre" if options.processes else "left"
    cells = [
        BoxCell(f"{gpu.index}:{_gpu_name(gpu)}", colour=colour),
        BoxCell(memory, "right"),
        BoxCell(f"{_round(gpu.busy_percent):>3} %", align),
    ]
    if options.details:
        cells += [
            BoxCell(f"{_round(gpu.fan_percent):>3} %"),
            BoxCell(f"{_round(gpu.temperature_celsius):>3} C"),
            BoxCell(f"{_round(gpu.power_watts):>3}W"),
        ]
    return cells


def _process_rows(
    gpu: JudgedGpu, taken_at: float | None, options: TableOptions
) -> Iterator[list[BoxCell]]:
    """Yield the cells of each process on a GPU, or one blank row if there is none."""
    if not options.processes:
        yield []
        return
    processes = [process for process in all_processes(gpu) if process.kind != "graphics"]
    if not processes:
        # A blank user would mean that nobody is on the GPU, which is not known here.
        unread = gpu.processes is None and not gpu.instances
        yield [BoxCell(""), BoxCell(_UNKNOWN if unread else ""), *_blank(3)]
    for process in processes:
        is_own = options.highlighted_user is not None and process.user == options.highlighted_user
        colour: Colour | None = "yellow" if is_own and options.colour else None
        yield [
            BoxCell(text, align, colour)
            for text, align in _process_texts(process, taken_at, options.full_commands)
        ]


def _process_texts(
    process: Process, taken_at: float | None, full_command: bool
) -> Sequence[tuple[str, Align]]:
    command = (process.command if full_command else None) or process.name or _UNKNOWN
    has_age = taken_at is not None and process.started_at is not None
    seconds = int((taken_at or 0.0) - (process.started_at or 0.0)) if has_age else None
    return (
        (_UNKNOWN if process.pid_is_made else str(process.pid), "left"),
        (process.user or _UNKNOWN, "left"),
        (command[:_MAX_COMMAND_LENGTH], "left"),
        (f"{_mib(process.gpu_memory_bytes)} MiB", "right"),
        (_runtime(seconds), "right"),
    )


def _blank(count: int) -> list[BoxCell]:
    return [BoxCell("")] * count


def _gpu_name(gpu: JudgedGpu) -> str:
    name = gpu.name or "GPU"
    return name if gpu.fault is None else f"{name} ({gpu.fault.kind.replace('_', ' ')})"


def _mib(count: int | None) -> str:
    return _UNKNOWN if count is None else str(count // MIB)


def _memory_percent(gpu: JudgedGpu) -> str:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return _UNKNOWN if used is None or not total else str(used * 100 // total)


def _round(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}"


def _runtime(seconds: int | None) -> str:
    """Format days, hours, minutes and seconds in columns; leading zeros are blank."""
    if seconds is None:
        return _UNKNOWN
    seconds = max(0, seconds)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    parts = (
        (days, f"{days:3} d "),
        (hours, f"{hours % 24:2} h "),
        (minutes, f"{minutes % 60:2} min "),
    )
    # A zero is blank only where all greater units are zero too: 1 d 0 h is printed in full.
    columns = [text if total else " " * len(text) for total, text in parts]
    return f"{''.join(columns)}{seconds % 60:2} sec"


def _format_time(at: float, local: ToLocalTime) -> str:
    time = local(at)
    # Not %d or %e: Go's format pads the day neither with a zero nor with a blank.
    return f"{time:%a %b} {time.day} {time:%H:%M:%S %Y}"
