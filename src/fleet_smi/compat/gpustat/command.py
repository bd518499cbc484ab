"""`fleet-smi like gpustat`: gpustat's flags and its lines, over any fleet."""

import argparse
import sys
from typing import TYPE_CHECKING, Literal

from fleet_smi import __version__
from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.compat.gpustat.codec import GpustatOptions
    from fleet_smi.model.fleet import FleetView

HELP = "what gpustat prints, of every node"
EXAMPLES = """\
  fleet-smi like gpustat -cup
  fleet-smi like gpustat -a -i 2
  fleet-smi like gpustat --dir '/nfs/status-gpu/cml*' --json
"""
_OF = "1.1.1"
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of gpustat."""
    add = parser.add_argument
    add("-a", "--show-all", action="store_true", help="all of -c -u -p -F -e -P")
    add("-c", "--show-cmd", action="store_true", help="the name of each process's command")
    add("-f", "--show-full-cmd", action="store_true", help="its whole command, and its CPU")
    add("-u", "--show-user", action="store_true", help="its user")
    add("-p", "--show-pid", action="store_true", help="its pid")
    add("-F", "--show-fan-speed", "--show-fan", action="store_true", help="the fan")
    codec = ("", "enc", "dec", "enc,dec")
    add("-e", "--show-codec", nargs="?", const="enc,dec", default="", choices=codec, help="video")
    power = ("", "draw", "limit", "draw,limit", "limit,draw")
    add("-P", "--show-power", nargs="?", const="limit", default="", choices=power, help="power")
    add("-i", "--interval", "--watch", nargs="?", type=float, const=1.0, help="again and again")
    add("--json", action="store_true", help="all of it as JSON")
    add("--id", metavar="0,2", help="only the GPUs of these indexes")
    add("--no-header", action="store_true", help="without host, date and driver")
    add("--gpuname-width", type=int, metavar="N", help="cut names to that; 0 leaves them out")
    add("--no-processes", action="store_true", help="without processes")
    add("--debug", action="store_true", help="taken as gpustat takes it; failures always say why")
    add("-v", "--version", action="version", version=f"gpustat {_OF} (fleet-smi {__version__})")
    colour = parser.add_mutually_exclusive_group()
    colour.add_argument("--color", "--force-color", action="store_true", help="also when piped")
    colour.add_argument("--no-color", action="store_true", help="never")


def run(args: argparse.Namespace) -> int:
    """Print the lines, once or again and again."""
    if args.interval is not None and args.json:
        raise Unmet("gpustat: --json and --interval/-i can't be used together")
    seconds = None if args.interval is None else _seconds(args.interval)
    indexes = None if args.id is None else _indexes(args.id)
    options = _options(args)
    fleet = fleet_source.select_fleet(args)

    def text() -> str:
        view = fleet.view(seconds)
        fleet_source.require_driver(view, "gpustat", is_local=fleet.is_local)
        return _text(args, view, indexes, options)

    if seconds is None:
        sys.stdout.write(text())
    else:
        output.repeat(seconds, text, interactive=True)
    return 0


def _seconds(asked: float) -> float:
    if not asked <= _LONGEST_SECONDS:
        raise UsageError(f"-i {asked:g}: give {_SHORTEST_SECONDS} to {_LONGEST_SECONDS} seconds")
    return max(_SHORTEST_SECONDS, asked)


def _indexes(written: str) -> frozenset[int]:
    words = written.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--id {written}: give indexes with commas between them, like 0,2")
    return frozenset(int(word) for word in words)


def _options(args: argparse.Namespace) -> "GpustatOptions":
    from fleet_smi.compat.gpustat.codec import GpustatOptions

    if args.gpuname_width is not None and args.gpuname_width < 0:
        raise UsageError("--gpuname-width: only non-negative integers are allowed")
    everything = args.show_all
    return GpustatOptions(
        command=everything or args.show_cmd,
        user=everything or args.show_user,
        pid=everything or args.show_pid,
        full_command=args.show_full_cmd,
        fan=everything or args.show_fan_speed,
        encoder=everything or "enc" in args.show_codec,
        decoder=everything or "dec" in args.show_codec,
        power=_power(args),
        name_width=args.gpuname_width,
        header=not args.no_header,
        processes=not args.no_processes,
        colour=output.use_colour(args),
    )


def _power(args: argparse.Namespace) -> Literal["draw", "limit"] | None:
    if args.show_all or "limit" in args.show_power:
        return "limit"
    return "draw" if args.show_power else None


def _text(
    args: argparse.Namespace,
    view: "FleetView",
    indexes: frozenset[int] | None,
    options: "GpustatOptions",
) -> str:
    from fleet_smi.compat.gpustat.table import render, render_json

    view = view if indexes is None else _only(view, indexes)
    if not args.json:
        return render(view, options)
    for node in view.nodes:
        if node.silent:
            print(f"fleet-smi: {node.name} is silent, and left out", file=sys.stderr)
    return render_json(view)


def _only(view: "FleetView", indexes: frozenset[int]) -> "FleetView":
    from msgspec.structs import replace

    nodes = [
        replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.index in indexes))
        for node in view.nodes
    ]
    return replace(view, nodes=tuple(nodes))
