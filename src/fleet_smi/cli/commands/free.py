"""`fleet-smi free`: which GPUs to take, ready for CUDA_VISIBLE_DEVICES."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.devices import candidate_labels, cuda_devices, warn_about_device_order
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.select import Candidate, GpuRequest, Offer

HELP = "which GPUs are free, best first; exit code 1 and no devices if it cannot be met"
EXAMPLES = """\
  CUDA_VISIBLE_DEVICES=$(fleet-smi free -n 1) python train.py
  gpu=$(fleet-smi free -n 1) && CUDA_VISIBLE_DEVICES=$gpu python train.py   (or not at all)
  fleet-smi free -n 2 --min-free 40GiB --model H100
  fleet-smi free --uuid          UUIDs instead of indices: right whatever order CUDA counts in
  fleet-smi free -v              what is offered, and why the rest is not
  fleet-smi free -n 4 --same-node --ssh-line   with a hub: the line to get there
  fleet-smi free --policy memory what nvgpu would offer: at most 20 % of memory used

policies (none ever offers a GPU that is broken, unknown or leased):
  free        nobody on it (the default)
  no-process  no compute process, as nvgpu's list and cluster-smi count
  memory      at most 20 % of the memory used, as `nvgpu available` counts
  load        no process, load under 5 %, memory traffic at most 2 %, as web-gpu-monitor counts
  context     also what is only held by an idle bare context
"""
_VENDORS = ("nvidia", "amd", "intel")
_POLICIES = ("free", "no-process", "memory", "load", "context")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the request."""
    add = parser.add_argument
    add("-n", "--count", type=int, metavar="N", help="how many (default: all that are free)")
    add("--min-free", metavar="SIZE", default="0", help="free memory on each, like 20GiB")
    add("--model", metavar="WORDS", help="only models whose name has these words, like A100")
    add("--vendor", choices=_VENDORS, help="whose cards (default: NVIDIA's if there are any)")
    add("--policy", choices=_POLICIES, default="free", help="what counts as free")
    add("--max-used", type=float, metavar="PERCENT", default=20.0, help="for --policy memory")
    add("--same-node", action="store_true", help="all of them on one node")
    add("--uuid", action="store_true", help="print UUIDs instead of indices")
    add("--ssh-line", action="store_true", help="the line that leads there, to copy")
    add("-v", "--why", action="store_true", help="explain each GPU")
    add("--json", action="store_true", help="the offer and the refusals, as JSON")
    fleet_source.add_at_argument(parser)
    fleet_source.add_fleet_arguments(parser)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Offer GPUs; fail if there are not enough."""
    if args.count is not None and args.count < 1:
        raise UsageError(f"-n {args.count}: ask for one GPU or more")
    if not 0 <= args.max_used <= 100:
        raise UsageError(f"--max-used {args.max_used:g}: give 0 to 100 percent")
    fleet = fleet_source.select_fleet(args)
    from fleet_smi.model.select import GpuRequest
    from fleet_smi.model.units import parse_size

    request = GpuRequest(
        count=args.count or 0,
        min_free_bytes=parse_size(args.min_free),
        model=args.model,
        policy=args.policy,
        vendor=args.vendor,
        max_used_percent=args.max_used,
        same_node=args.same_node,
    )
    found, view = _offer(fleet, request, explain=args.json or args.why)
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json(found, pretty=True).decode() + "\n")
    elif args.why:
        sys.stdout.write(_explained(args, found, view))
    elif found.unmet is None:
        print(_answer(args, found, view))
    if found.unmet is not None:
        failures = [] if view is None else [text for node in view.nodes for text in node.failures]
        raise Unmet("; ".join([found.unmet, *failures]))
    return 0


def _offer(
    fleet: fleet_source.FleetSource, request: "GpuRequest", *, explain: bool
) -> "tuple[Offer, FleetView | None]":
    """The offer, and the view of this machine where it is about this machine alone."""
    if isinstance(fleet, fleet_source.HubFleet):
        return fleet.free(request, explain=explain), None
    from fleet_smi.model.select import find_offer

    view = fleet.view()
    return find_offer(view, request, fleet.thresholds), view if fleet.is_local else None


def _answer(args: argparse.Namespace, found: "Offer", here: "FleetView | None") -> str:
    if args.ssh_line:
        return "\n".join(_ssh_lines(args, found.offered))
    if here is not None and not args.uuid:
        warn_about_device_order(here)
    if here is not None or args.uuid:
        return ",".join(cuda_devices(found.offered, uuid=args.uuid))
    return ",".join(candidate_labels(found.offered))


def _ssh_lines(args: argparse.Namespace, offered: "Sequence[Candidate]") -> "Iterator[str]":
    """A line for each node that leads to a shell there, with these GPUs and no others."""
    from shlex import quote

    by_node: dict[str, list[Candidate]] = {}
    for one in offered:
        by_node.setdefault(one.node_id, []).append(one)
    for theirs in by_node.values():
        visible = quote(",".join(cuda_devices(theirs, uuid=args.uuid)))
        order = "" if args.uuid else "CUDA_DEVICE_ORDER=PCI_BUS_ID "
        shell = quote(f"{order}CUDA_VISIBLE_DEVICES={visible} exec $SHELL -l")
        yield f"ssh -t -- {quote(theirs[0].node)} {shell}"


def _explained(args: argparse.Namespace, found: "Offer", here: "FleetView | None") -> str:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import free

    paint = Paint(enabled=output.use_colour(args))
    own = here.nodes[0].node_id if here is not None and here.nodes else None
    banner = output.history_banner(args, found, paint)
    return banner + free.render(
        found, output.output_columns(), paint, now=found.taken_at, local_node_id=own
    )
