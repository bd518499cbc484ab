"""`nvgpu available` and `nvgpu list`."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.devices import candidate_labels, cuda_devices, warn_about_device_order
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView, NodeView

HELP = "which GPUs have memory to spare, and the table of who uses which"
EXAMPLES = """\
  gpu=$(fleet-smi like nvgpu available -l 1) && CUDA_VISIBLE_DEVICES=$gpu python train.py
  fleet-smi like nvgpu available --max-used 5
  fleet-smi like nvgpu list
  alias nvl='fleet-smi like nvgpu list'

`available` counts memory alone, at most 20 % of it in use: a GPU may have somebody on it. What is
broken or cannot be read is never printed. `fleet-smi free` counts people too, best first.
"""
_AGAIN = "`watch fleet-smi like nvgpu list` or `fleet-smi -i 3`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags, and two that it has not: the percentage, and the memory in the list."""
    add = parser.add_argument
    add("command", choices=("available", "list"), help="the indices to take, or the table")
    add("-l", "--limit", type=int, metavar="N", help="available: at most so many")
    add("--max-used", type=float, metavar="PERCENT", default=20.0, help="available: memory in use")
    add("-m", "--memory", action="store_true", help="list: the memory in use, as nvgpu 0.10 has it")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do as nvgpu does."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"-l {args.limit}: ask for one GPU or more")
    if args.limit is not None and args.command == "list":
        raise UsageError(f"-l goes with available: for a table again and again, {_AGAIN}")
    if not 0 <= args.max_used <= 100:
        raise UsageError(f"--max-used {args.max_used:g}: give 0 to 100 percent")
    print(_available(args)) if args.command == "available" else sys.stdout.write(_listed(args))
    return 0


def _available(args: argparse.Namespace) -> str:
    fleet = fleet_source.select_fleet(args)
    from fleet_smi.model.safe_text import natural_sort_key
    from fleet_smi.model.select import GpuRequest, find_offer

    request = GpuRequest(count=0, policy="memory", max_used_percent=args.max_used)
    view = fleet.view()
    fleet_source.require_driver(view, "nvgpu", is_local=fleet.is_local)
    found = find_offer(view, request, fleet.thresholds).offered
    if not found:
        failures = [each for node in view.nodes for each in node.failures] if fleet.is_local else ()
        words = f"no GPU has at most {args.max_used:g} % of its memory in use"
        raise Unmet("; ".join([words, *failures]))
    in_order = sorted(
        found, key=lambda one: (natural_sort_key(one.node), one.node_id, one.index, one.part or 0)
    )
    chosen = in_order[: args.limit]
    if not fleet.is_local:
        return ",".join(candidate_labels(chosen))
    warn_about_device_order(view, alternative="`fleet-smi free --uuid`")
    return ",".join(cuda_devices(chosen))


def _listed(args: argparse.Namespace) -> str:
    fleet = fleet_source.select_fleet(args)
    view = fleet.view()
    fleet_source.require_driver(view, "nvgpu", is_local=fleet.is_local)
    colour = output.use_colour(args)
    if fleet.is_local:
        return "".join([_table(node, colour=colour, memory=args.memory) for node in view.nodes])
    return _tables(view, colour=colour, memory=args.memory)


def _tables(view: "FleetView", *, colour: bool, memory: bool) -> str:
    """As its master shows many machines: each under its name."""
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
    from fleet_smi.compat.nvgpu.codec import machine_status
    from fleet_smi.terminal.paint import strip_unprintable

    status = machine_status(node)
    if not isinstance(status.gpus, tuple):
        return f"{strip_unprintable(str(status.error))}\n"
    used = [gpu.memory_used_bytes for gpu in node.gpus] if memory else None
    return table.render(status.gpus, colour=colour, memory_used_bytes=used)
