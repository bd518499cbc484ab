"""Encoder of gpustat's text output: its layout, options and colours. Pure.

Two deliberate differences: grey is "faint" here, because many dark terminals draw gpustat's bold
black in the colour of the background; and memory without a process is noted at the end of a line.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from fleet_smi.compat.gpustat.builders import QUERY_ERROR_TEXT
from fleet_smi.compat.gpustat.json_codec import JsonObject, gpu_to_json, is_lost
from fleet_smi.model.driver_failure import driver_error
from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import MIB

_NORMAL = "\x1b[0;10m"
_GREY, _BOLD = "\x1b[2m", "\x1b[1m"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN, _WHITE = (f"\x1b[{code}m" for code in range(31, 38))
_DARK = "\x1b[38;5;24m"
_DEFAULT_NAME_WIDTH = 16
_UNKNOWN = "??"
_GetText = Callable[[str], Any]
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class GpustatOptions(Struct, frozen=True, kw_only=True):
    """Display options, by gpustat's flags; `name_width` truncates the names of GPUs."""

    command: bool = False
    user: bool = False
    pid: bool = False
    full_command: bool = False
    fan: bool = False
    encoder: bool = False
    decoder: bool = False
    power: Literal["draw", "limit"] | None = None
    name_width: int | None = None
    header: bool = True
    processes: bool = True
    colour: bool = False


class _Pen:
    """Colours text, or leaves it plain when off."""

    def __init__(self, *, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, *codes: str) -> str:
        return f"{''.join(codes)}{text}{_NORMAL}" if self._on and codes else text

    def above(self, value: Any, limit: float, text: str, colour: str) -> str:
        """Colour a figure: bold from `limit` on, grey if it is unknown."""
        if not isinstance(value, int):
            return self(text, _GREY)
        return self(text, colour) if value < limit else self(text, _BOLD, colour)


def node_lines(node: NodeView | Snapshot, timestamp: str, options: GpustatOptions) -> Iterator[str]:
    """Yield the lines of a node, with `timestamp` in the header."""
    pen = _Pen(on=options.colour)
    documents = [(gpu, gpu_to_json(gpu)) for gpu in node.gpus]
    names = [len(document["name"]) for _, document in documents]
    width = max([*names, 0]) if options.name_width is None else options.name_width
    if options.header:
        yield _header(node, timestamp, width, pen)
    for gpu, document in documents:
        yield _line(gpu, document, width, options, pen)
        if options.full_command and options.processes:
            yield from _full_lines(document["processes"] or [], pen)
    error = driver_error(node)
    if error is not None:
        yield f"{pen(QUERY_ERROR_TEXT, _RED)}: {sanitize_text(error, 300)}"
    elif not documents:
        yield pen("(No GPUs are available)", _YELLOW)


def _header(node: NodeView | Snapshot, timestamp: str, width: int, pen: _Pen) -> str:
    name = sanitize_text(node.name, 128).ljust((width or _DEFAULT_NAME_WIDTH) + len("[?]"))
    driver = node.host.driver_version
    header = f"{pen(name, _BOLD, _WHITE)}  {timestamp}".strip()
    return header if driver is None else f"{header}  {pen(driver, _GREY)}"


def _line(gpu: Gpu, document: JsonObject, width: int, options: GpustatOptions, pen: _Pen) -> str:
    # gpustat prints two question marks, but one for each figure of a lost GPU.
    unknown = "?" if is_lost(gpu) else _UNKNOWN

    def get_text(key: str) -> Any:
        value = document.get(key)
        return unknown if value is None else value

    parts = [pen(f"[{gpu.index}]", _CYAN), " "]
    if width:
        name = _truncate(document["name"], width).ljust(width)
        parts.append(f"{pen(name, _BLUE if gpu.fault is None else _RED)} |")
    parts.append(_figures(get_text, options, pen))
    parts.append(f" | {_memory(gpu, get_text, pen)} MB")
    if options.processes:
        parts.append(
            " |" + "".join(f" {text}" for text in _process_labels(gpu, document, options, pen))
        )
    return "".join(parts)


def _figures(get_text: _GetText, options: GpustatOptions, pen: _Pen) -> str:
    temperature, busy = get_text("temperature.gpu"), get_text("utilization.gpu")
    parts = [pen.above(temperature, 50, f"{temperature:>3}°C", _RED), ", "]
    if options.fan:
        fan = get_text("fan.speed")
        parts += [pen.above(fan, 30, f"{fan:>3} %", _CYAN), ", "]
    parts.append(pen.above(busy, 30, f"{busy:>3} %", _GREEN))
    if options.encoder or options.decoder:
        parts.append(f" ({'  '.join(_video(get_text, options, pen))})")
    if options.power:
        parts.append(f",  {_power(get_text, options, pen)}")
    return "".join(parts)


def _video(get_text: _GetText, options: GpustatOptions, pen: _Pen) -> Iterator[str]:
    keys = {"E": options.encoder and "utilization.enc", "D": options.decoder and "utilization.dec"}
    for letter, key in keys.items():
        if key:
            load = pen.above(get_text(key), 50, f"{get_text(key):>3} %", _GREEN)
            yield pen(f"{letter}: ", _BOLD) + load


def _power(get_text: _GetText, options: GpustatOptions, pen: _Pen) -> str:
    draw, limit = get_text("power.draw"), get_text("enforced.power.limit")
    codes = _power_codes(draw, limit)
    drawn = pen(f"{draw:>3}", *codes)
    if options.power == "draw":
        return f"{drawn} {pen('W', *codes)}"
    return f"{drawn} / {pen(f'{limit:>3}', _MAGENTA)} {pen('W', _MAGENTA)}"


def _power_codes(draw: Any, limit: Any) -> tuple[str, ...]:
    """Return the colour of the drawn power: bold from 40 % of the limit on, and without one."""
    if limit == _UNKNOWN:
        return _BOLD, _MAGENTA
    if not isinstance(draw, int) or not isinstance(limit, int):
        return (_GREY,)
    return (_MAGENTA,) if draw < 0.4 * limit else (_BOLD, _MAGENTA)


def _memory(gpu: Gpu, get_text: _GetText, pen: _Pen) -> str:
    used, total = f"{get_text('memory.used'):>5}", f"{get_text('memory.total'):>5}"
    if is_lost(gpu):
        return f"{pen(used, _CYAN, _GREY)} / {pen(total, _GREY)}"
    return f"{pen(used, _CYAN, _BOLD, _YELLOW)} / {pen(total, _YELLOW)}"


def _process_labels(
    gpu: Gpu, document: JsonObject, options: GpustatOptions, pen: _Pen
) -> Iterator[str]:
    """Yield the processes at the end of a line, or why none is listed."""
    processes = document["processes"]
    if processes is None:
        yield "(Not Supported)"
        return
    yield from (_process_label(process, options, pen) for process in processes)
    if isinstance(gpu, JudgedGpu) and gpu.verdict.state == "ghost" and not processes:
        yield f"({(gpu.memory_used_bytes or 0) // MIB}M unaccounted)"


def _process_label(process: JsonObject, options: GpustatOptions, pen: _Pen) -> str:
    parts = []
    # Without any option gpustat prints the user alone, with -c alone the command.
    if options.user or not options.command:
        parts.append(pen(_sanitize(process["username"]), _GREY))
    if options.command:
        parts.append(pen(_sanitize(process["command"]), _CYAN))
    pid = f"/{_text_or(process['pid'], '--')}" if options.pid else ""
    memory = pen(f"{_text_or(process['gpu_memory_usage'], '?')}M", _YELLOW)
    return f"{':'.join(parts)}{pid}({memory})"


def _full_lines(processes: list[JsonObject], pen: _Pen) -> Iterator[str]:
    for number, process in enumerate(processes, 1):
        branch = "└─" if number == len(processes) else "├─"
        cpu = process["cpu_percent"]
        load = "  --" if cpu is None else f"{cpu:4.0f}"
        memory = f"{_size(process['cpu_memory_usage']):>6}"
        command = sanitize_text(" ".join(process["full_command"]), 4096) or "?"
        program, *arguments = command.split(" ")
        line = pen(program, _CYAN) + (pen(f" {' '.join(arguments)}", _DARK) if arguments else "")
        yield (
            f" {branch} {_text_or(process['pid'], '--'):>6} "
            f"({pen(f'{load}%', _GREEN)}, {pen(memory, _YELLOW)}): {line}"
        )


def _truncate(name: str, width: int) -> str:
    """Cut a name at its left: models differ in the right end."""
    if len(name) <= width:
        return name
    return f"…{name[len(name) - width + 1 :]}"


def _size(count: int | None) -> str:
    if count is None:
        return "?B"
    unit = 0
    # Up to four digits before the next unit, as in gpustat.
    while count > 9999 and unit < len(_UNITS) - 1:
        count, unit = count >> 10, unit + 1
    return f"{count}{_UNITS[unit]}"


def _sanitize(text: str | None) -> str:
    """Sanitise a text, so that it cannot break the line or move the cursor."""
    return sanitize_text(text or "", 128) or "--"


def _text_or(value: Any, unknown: str) -> str:
    return unknown if value is None else str(value)
