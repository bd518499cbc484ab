"""`fleet-smi like nvgpu`: the commands `nvgpu available` and `nvgpu list`, for any fleet."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.devices import cuda_devices, warn_about_device_order
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView, NodeView

HELP = "which GPUs have free memory, and a table of who uses which"
EXAMPLES = """\
  gpu=$(fleet-smi like nvgpu available -l 1) && CUDA_VISIBLE_DEVICES=$gpu python train.py
  fleet-smi like nvgpu available --max-used 5
  fleet-smi like nvgpu list
  alias nvl='fleet-smi like nvgpu list'

`available` looks at memory only (at most 20 % in use), so a GPU may have processes on it. GPUs that
are broken or whose memory is unknown are never printed. It prints the indices of one machine: this
one, also with a hub. `fleet-smi free` looks at processes too, best first, in the whole fleet.
"""
_DRIVER_ERROR = "nvgpu: cannot query the NVIDIA driver"
_FLEET_HINT = "`fleet-smi free --policy memory` for GPUs of the whole fleet"
_REPEAT_HINT = "`watch fleet-smi like nvgpu list` or `fleet-smi -i 3`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nvgpu's flags, and two of our own: `--max-used` and `--memory`."""
    add = parser.add_argument
    add("command", choices=("available", "list"), help="print free indices, or the table")
    add("-l", "--limit", type=int, metavar="N", help="available: at most N")
    add(
        "--max-used",
        type=float,
        metavar="PERCENT",
        default=20.0,
        help="available: maximum memory in use (20)",
    )
    add("-m", "--memory", action="store_true", help="list: the memory in use, as in nvgpu 0.10")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the available GPUs or the table."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"-l {args.limit}: ask for one GPU or more")
    if args.limit is not None and args.command == "list":
        raise UsageError(f"-l goes with available: to repeat the table, use {_REPEAT_HINT}")
    if not 0 <= args.max_used <= 100:
        raise UsageError(f"--max-used {args.max_used:g}: give 0 to 100 percent")
    print(_available(args)) if args.command == "available" else sys.stdout.write(_list(args))
    return 0


def _available(args: argparse.Namespace) -> str:
    fleet = fleet_source.select_fleet(args)
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.model.select import find_offer

    # Count 0 is "all": the limit is applied below, in the order of indices.
    request = GpuRequest(count=0, policy="memory", max_used_percent=args.max_used)
    view = fleet.view()
    fleet_source.require_driver(view, _DRIVER_ERROR, is_local=fleet.is_local)
    if not fleet.is_local:
        fleet_source.require_answer(fleet)
        view = _one_machine(view, is_named=bool(args.ssh or args.dir))
    offered = find_offer(view, request, fleet.thresholds).offered
    if not offered:
        (node,) = view.nodes
        silence = [f"{node.name} is silent"] if node.silent else []
        message = f"no GPU has at most {args.max_used:g} % of its memory in use"
        raise Unmet("; ".join([message, *silence, *node.failures]))
    # Cut after sorting, as nvgpu does: -l 1 is the first index, not the best GPU.
    chosen = sorted(offered, key=lambda gpu: (gpu.index, gpu.part or 0))[: args.limit]
    warn_about_device_order(view, alternative="`fleet-smi free --uuid`")
    return ",".join(cuda_devices(chosen))


def _one_machine(view: "FleetView", *, is_named: bool) -> "FleetView":
    """Return one node of a fleet: the only one that was named, else this machine.

    Indices are for CUDA_VISIBLE_DEVICES, where those of another machine select the wrong GPUs.
    Raise `Unmet` if there is no such node.
    """
    from msgspec.structs import replace

    from fleet_smi.cli.this_machine import find_node, read_identity

    if is_named and len(view.nodes) == 1:
        return view
    identity = read_identity()
    node = find_node(view, identity)
    if node is None:
        raise Unmet(
            f"nvgpu: this machine ({identity.name}) is not a node of that fleet, and indices are "
            f"those of one machine: use --here, or {_FLEET_HINT}"
        )
    return replace(view, nodes=(node,))


def _list(args: argparse.Namespace) -> str:
    fleet = fleet_source.select_fleet(args)
    view = fleet.view()
    fleet_source.require_driver(view, _DRIVER_ERROR, is_local=fleet.is_local)
    colour = output.use_colour(args)
    if fleet.is_local:
        return "".join([_table(node, colour=colour, memory=args.memory) for node in view.nodes])
    return _tables(view, colour=colour, memory=args.memory)


def _tables(view: "FleetView", *, colour: bool, memory: bool) -> str:
    """Render one table per machine under its name, as an nvgpu master does."""
    from fleet_smi.model.node_names import unique_node_names
    from fleet_smi.terminal.paint import strip_unprintable

    names = unique_node_names(view.nodes)
    tables = [
        f"{strip_unprintable(names[node.node_id])}\n{_table(node, colour=colour, memory=memory)}"
        for node in view.nodes
    ]
    return "\n".join(tables)


def _table(node: "NodeView", *, colour: bool, memory: bool) -> str:
    from fleet_smi.compat.nvgpu import table
    from fleet_smi.compat.nvgpu.codec import error_reason, machine_status
    from fleet_smi.terminal.paint import strip_unprintable

    status = machine_status(node)
    if not isinstance(status.gpus, tuple):
        return strip_unprintable(f"{status.error} ({error_reason(node)})") + "\n"
    used = [gpu.memory_used_bytes for gpu in node.gpus] if memory else None
    return table.render(status.gpus, colour=colour, memory_used_bytes=used)
