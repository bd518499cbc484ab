"""A node as gpustat prints it for eyes: its layout, its options, its colours.

One thing of it is not kept: grey is faint here, for many a dark terminal draws its bold black
in the colour of the background. And what no process accounts for is said at the end of a line.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct

from fleet_smi.compat.gpustat.json_codec import JsonObject, gpu_to_json
from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import MIB

_NORMAL = "\x1b[0;10m"
_GREY, _BOLD = "\x1b[2m", "\x1b[1m"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN, _WHITE = (f"\x1b[{code}m" for code in range(31, 38))
_DARK = "\x1b[38;5;24m"
_USUAL_NAME_WIDTH = 16
_Shown = Callable[[str], Any]
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class GpustatOptions(Struct, frozen=True, kw_only=True):
    """What is shown, by gpustat's own flags; the names are cut at `name_width`, if given."""

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
    """Puts colour on text, or leaves it plain."""

    def __init__(self, *, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, *codes: str) -> str:
        return f"{''.join(codes)}{text}{_NORMAL}" if self._on and codes else text

    def above(self, value: Any, limit: float, text: str, colour: str) -> str:
        """Bold from `limit` on, and grey where it is not known."""
        if not isinstance(value, int):
            return self(text, _GREY)
        return self(text, colour) if value < limit else self(text, _BOLD, colour)


def node_lines(node: NodeView | Snapshot, timestamp: str, options: GpustatOptions) -> Iterator[str]:
    """What gpustat would print on this node; `when` is the date in its header."""
    pen = _Pen(on=options.colour)
    documents = [(gpu, gpu_to_json(gpu)) for gpu in node.gpus]
    names = [len(each["name"]) for _, each in documents]
    width = max([*names, 0]) if options.name_width is None else options.name_width
    if options.header:
        yield _header(node, timestamp, width, pen)
    for gpu, document in documents:
        yield _line(gpu, document, width, options, pen)
        if options.full_command and options.processes:
            yield from _full_lines(document["processes"] or [], pen)
    if not documents:
        yield pen("(No GPUs are available)", _YELLOW)


def _header(node: NodeView | Snapshot, when: str, width: int, pen: _Pen) -> str:
    name = sanitize_text(node.name, 128).ljust((width or _USUAL_NAME_WIDTH) + len("[?]"))
    driver = node.host.driver_version
    told = f"{pen(name, _BOLD, _WHITE)}  {when}".strip()
    return told if driver is None else f"{told}  {pen(driver, _GREY)}"


def _line(gpu: Gpu, told: JsonObject, width: int, options: GpustatOptions, pen: _Pen) -> str:
    unknown = "??" if gpu.fault is None else "?"

    def shown(key: str) -> Any:
        value = told.get(key)
        return unknown if value is None else value

    parts = [pen(f"[{gpu.index}]", _CYAN), " "]
    if width:
        name = _shortened(told["name"], width).ljust(width)
        parts.append(f"{pen(name, _BLUE if gpu.fault is None else _RED)} |")
    parts.append(_figures(shown, options, pen))
    parts.append(f" | {_memory(gpu, shown, pen)} MB")
    if options.processes:
        parts.append(" |" + "".join(f" {each}" for each in _owners(gpu, told, options, pen)))
    return "".join(parts)


def _figures(shown: _Shown, options: GpustatOptions, pen: _Pen) -> str:
    heat, busy = shown("temperature.gpu"), shown("utilization.gpu")
    parts = [pen.above(heat, 50, f"{heat:>3}°C", _RED), ", "]
    if options.fan:
        fan = shown("fan.speed")
        parts += [pen.above(fan, 30, f"{fan:>3} %", _CYAN), ", "]
    parts.append(pen.above(busy, 30, f"{busy:>3} %", _GREEN))
    if options.encoder or options.decoder:
        parts.append(f" ({'  '.join(_video(shown, options, pen))})")
    if options.power:
        parts.append(f",  {_power(shown, options, pen)}")
    return "".join(parts)


def _video(shown: _Shown, options: GpustatOptions, pen: _Pen) -> Iterator[str]:
    asked = {"E": options.encoder and "utilization.enc", "D": options.decoder and "utilization.dec"}
    for letter, key in asked.items():
        if key:
            load = pen.above(shown(key), 50, f"{shown(key):>3} %", _GREEN)
            yield pen(f"{letter}: ", _BOLD) + load


def _power(shown: _Shown, options: GpustatOptions, pen: _Pen) -> str:
    draw, limit = shown("power.draw"), shown("enforced.power.limit")
    strong = 0.4 * limit if isinstance(limit, int) else 0.0
    drawn = pen.above(draw, strong, f"{draw:>3}", _MAGENTA)
    if options.power == "draw":
        return f"{drawn} {pen('W', _MAGENTA)}"
    return f"{drawn} / {pen(f'{limit:>3}', _MAGENTA)} {pen('W', _MAGENTA)}"


def _memory(gpu: Gpu, shown: _Shown, pen: _Pen) -> str:
    used, total = f"{shown('memory.used'):>5}", f"{shown('memory.total'):>5}"
    if gpu.fault is not None:
        return f"{pen(used, _CYAN, _GREY)} / {pen(total, _GREY)}"
    return f"{pen(used, _CYAN, _BOLD, _YELLOW)} / {pen(total, _YELLOW)}"


def _owners(gpu: Gpu, told: JsonObject, options: GpustatOptions, pen: _Pen) -> Iterator[str]:
    processes = told["processes"]
    if processes is None:
        yield "(Not Supported)"
        return
    yield from (_owner(process, options, pen) for process in processes)
    if isinstance(gpu, JudgedGpu) and gpu.verdict.state == "ghost" and not processes:
        yield f"({(gpu.memory_used_bytes or 0) // MIB}M unaccounted)"


def _owner(process: JsonObject, options: GpustatOptions, pen: _Pen) -> str:
    parts = []
    if options.user or not options.command:
        parts.append(pen(_plain(process["username"]), _GREY))
    if options.command:
        parts.append(pen(_plain(process["command"]), _CYAN))
    pid = f"/{_or(process['pid'], '--')}" if options.pid else ""
    memory = pen(f"{_or(process['gpu_memory_usage'], '?')}M", _YELLOW)
    return f"{':'.join(parts)}{pid}({memory})"


def _full_lines(processes: list[JsonObject], pen: _Pen) -> Iterator[str]:
    for at, process in enumerate(processes, 1):
        branch = "└─" if at == len(processes) else "├─"
        cpu = process["cpu_percent"]
        load = "  --" if cpu is None else f"{cpu:4.0f}"
        memory = f"{_size(process['cpu_memory_usage']):>6}"
        command = sanitize_text(" ".join(process["full_command"]), 4096) or "?"
        program, *arguments = command.split(" ")
        words = pen(program, _CYAN) + (pen(f" {' '.join(arguments)}", _DARK) if arguments else "")
        yield (
            f" {branch} {_or(process['pid'], '--'):>6} "
            f"({pen(f'{load}%', _GREEN)}, {pen(memory, _YELLOW)}): {words}"
        )


def _shortened(name: str, width: int) -> str:
    """The right end of a name is what tells models apart."""
    if len(name) <= width:
        return name
    return f"…{name[len(name) - width + 1 :]}"


def _size(count: int | None) -> str:
    if count is None:
        return "?B"
    unit = 0
    while count > 9999 and unit < len(_UNITS) - 1:
        count, unit = count >> 10, unit + 1
    return f"{count}{_UNITS[unit]}"


def _plain(text: str | None) -> str:
    """A word that breaks no line and moves no cursor."""
    return sanitize_text(text or "", 128) or "--"


def _or(value: Any, unknown: str) -> str:
    return unknown if value is None else str(value)
