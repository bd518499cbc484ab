"""`fleet-smi like gpustat`: gpustat's flags and output, for any fleet."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Literal

from fleet_smi import __version__
from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.node.bindings.proc_files import CACHE_SECONDS

if TYPE_CHECKING:
    from fleet_smi.compat.gpustat.codec import GpustatOptions
    from fleet_smi.model.fleet import FleetView

HELP = "the output of gpustat for every node"
EXAMPLES = """\
  fleet-smi like gpustat -cup
  fleet-smi like gpustat -a -i 2
  fleet-smi like gpustat --dir '/nfs/status-gpu/cml*' --json
"""
_GPUSTAT_VERSION = "1.1.1"  # the version whose flags and output are imitated
_DRIVER_ERROR = "gpustat: Error on querying NVIDIA devices"
_MIN_INTERVAL_SECONDS, _MAX_INTERVAL_SECONDS = 0.1, 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of gpustat."""
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
    add(
        "-i",
        "--interval",
        "--watch",
        nargs="?",
        type=float,
        const=1.0,
        help="refresh every N seconds (1)",
    )
    add("--json", action="store_true", help="everything as JSON")
    add("--id", metavar="0,2", help="only the GPUs of these indexes")
    add("--no-header", action="store_true", help="without host, date and driver")
    add("--gpuname-width", type=int, metavar="N", help="truncate names to N columns; 0 hides them")
    add("--no-processes", action="store_true", help="without processes")
    add("--debug", action="store_true", help="accepted for compatibility; has no effect")
    add(
        "-v",
        "--version",
        action="version",
        version=f"gpustat {_GPUSTAT_VERSION} (fleet-smi {__version__})",
    )
    colour = parser.add_mutually_exclusive_group()
    colour.add_argument("--color", "--force-color", action="store_true", help="also when piped")
    colour.add_argument("--no-color", action="store_true", help="never")


def run(args: argparse.Namespace) -> int:
    """Print the output once, or refresh it."""
    if args.interval is not None and args.json:
        raise Unmet("gpustat: --json and --interval/-i can't be used together")
    seconds = None if args.interval is None else _seconds(args.interval)
    indexes = None if args.id is None else _indexes(args.id)
    options = _options(args)
    fleet = fleet_source.select_fleet(args)

    def text() -> str:
        view = fleet.view(seconds)
        fleet_source.require_driver(view, _DRIVER_ERROR, is_local=fleet.is_local)
        if indexes is not None:
            view = _select(view, indexes)
        return _text(args, view, options)

    if seconds is None:
        if args.show_full_cmd and fleet.is_local:
            # The CPU load of a process needs two readings, as in gpustat.
            fleet.view()
            time.sleep(CACHE_SECONDS)
        sys.stdout.write(text())
    else:
        output.repeat(seconds, text, interactive=True)
    return 0


def _seconds(interval: float) -> float:
    # Negated, so that NaN is refused too.
    if not interval <= _MAX_INTERVAL_SECONDS:
        raise UsageError(
            f"-i {interval:g}: give {_MIN_INTERVAL_SECONDS} to {_MAX_INTERVAL_SECONDS} seconds"
        )
    return max(_MIN_INTERVAL_SECONDS, interval)


def _indexes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--id {text}: give indexes separated by commas, like 0,2")
    return tuple(int(part) for part in parts)


def _options(args: argparse.Namespace) -> "GpustatOptions":
    from fleet_smi.compat.gpustat.codec import GpustatOptions

    if args.gpuname_width is not None and args.gpuname_width < 0:
        raise UsageError("--gpuname-width: only non-negative integers are allowed")
    show_all = args.show_all
    return GpustatOptions(
        command=show_all or args.show_cmd,
        user=show_all or args.show_user,
        pid=show_all or args.show_pid,
        full_command=args.show_full_cmd,
        fan=show_all or args.show_fan_speed,
        encoder=show_all or "enc" in args.show_codec,
        decoder=show_all or "dec" in args.show_codec,
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


def _text(args: argparse.Namespace, view: "FleetView", options: "GpustatOptions") -> str:
    from fleet_smi.compat.gpustat.table import render, render_json

    if not args.json:
        return render(view, options)
    # gpustat's JSON has no field for an error, so this can only be said on stderr.
    for node in view.nodes:
        if node.silent:
            print(f"fleet-smi: {node.name} is silent and left out", file=sys.stderr)
    return render_json(view)


def _select(view: "FleetView", indexes: tuple[int, ...]) -> "FleetView":
    """Return the nodes with these GPUs alone, in the order requested; raise `Unmet` without any.

    gpustat fails where a machine lacks one of them. In a fleet, machines differ: only an index
    that none has is an error, and machines without any of the GPUs are left out.
    """
    from msgspec.structs import replace

    known = {gpu.index for node in view.nodes for gpu in node.gpus}
    missing = [str(index) for index in indexes if index not in known]
    if missing and not all(node.silent for node in view.nodes):
        listed = ", ".join(map(str, sorted(known))) or "none"
        raise Unmet(f"{_DRIVER_ERROR}: no GPU {', '.join(missing)} (--id); there are: {listed}")
    nodes = [
        replace(node, gpus=tuple(gpu for at in indexes for gpu in node.gpus if gpu.index == at))
        for node in view.nodes
        if node.silent or not node.gpus or any(gpu.index in indexes for gpu in node.gpus)
    ]
    return replace(view, nodes=tuple(nodes))
