"""`fleet-smi free`: find free GPUs and print them for CUDA_VISIBLE_DEVICES."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.devices import (
    candidate_labels,
    cuda_devices,
    require_a_gpu,
    warn_about_device_order,
)
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleet_smi.model.candidates import Candidate, GpuRequest, OfferedDevice
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.select import BriefOffer, Offer

HELP = "find free GPUs, best first; prints nothing and exits with 1 if there are not enough"
EXAMPLES = """\
  CUDA_VISIBLE_DEVICES=$(fleet-smi free -n 1) python train.py
  gpu=$(fleet-smi free -n 1) && CUDA_VISIBLE_DEVICES=$gpu python train.py   (only if one is free)
  fleet-smi free -n 2 --min-free 80GiB --model H100
  fleet-smi free --uuid          UUIDs instead of indices: independent of CUDA's device order
  fleet-smi free -n 1 --hold 5m  take it for 5 minutes: a notebook is about to start
  fleet-smi free -v              what is offered, and why the rest is not
  fleet-smi free -n 4 --same-node --ssh-line   with a hub: the ssh command to get there
  fleet-smi free --policy memory what nvgpu would offer: at most 20 % of memory used

sizes: within 3 % of the size that a card is sold with, --min-free means that card, unused.

policies (none offers a GPU that is broken, unknown or leased):
  free        no process on it (the default)
  no-process  no compute process, as in nvgpu's list and cluster-smi
  memory      at most 20 % of memory used, as in `nvgpu available`
  load        no process, load under 5 %, memory traffic at most 2 %, as in web-gpu-monitor
  context     like free, and GPUs held only by an idle context without data
"""
_VENDORS = ("nvidia", "amd", "intel")
_POLICIES = ("free", "no-process", "memory", "load", "context")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the request."""
    add = parser.add_argument
    add("-n", "--count", type=int, metavar="N", help="how many GPUs (default: all free ones)")
    memory_help = "free memory per GPU, like 20GiB; 80GiB means an 80 GB card, with 79.6 GiB"
    add("--min-free", metavar="SIZE", default="0", help=memory_help)
    add("--model", metavar="WORDS", help="only models with these words in their name, like A100")
    add("--vendor", choices=_VENDORS, help="GPU vendor (default: NVIDIA if there are any)")
    add("--policy", choices=_POLICIES, default="free", help="what counts as free (free)")
    add("--max-used", type=float, metavar="PERCENT", default=20.0, help="for --policy memory (20)")
    add("--same-node", action="store_true", help="all GPUs on one node")
    add("--uuid", action="store_true", help="print UUIDs instead of indices")
    add("--hold", metavar="TIME", help="lease them for this long, like 5m, until your job starts")
    bookings_help = "with --hold: also GPUs that somebody has booked"
    add("--ignore-bookings", action="store_true", help=bookings_help)
    add("--ssh-line", action="store_true", help="print an ssh command that opens a shell there")
    add("-v", "--why", action="store_true", help="explain why each GPU is offered or not")
    add("--json", action="store_true", help="offered and rejected GPUs, as JSON")
    fleet_source.add_at_argument(parser)
    fleet_source.add_fleet_arguments(parser, replay=True)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the offered GPUs; raise `Unmet` if there are not enough."""
    if args.count is not None and args.count < 1:
        raise UsageError(f"-n {args.count}: must be 1 or more")
    if not 0 <= args.max_used <= 100:
        raise UsageError(f"--max-used {args.max_used:g}: must be 0 to 100 percent")
    if args.hold is not None:
        return _hold(args)
    # Selected before the imports below: its reader process loads the driver meanwhile.
    fleet = fleet_source.select_fleet(args)
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.model.units import parse_memory

    request = GpuRequest(
        count=args.count or 0,
        min_free_bytes=parse_memory(args.min_free),
        model=args.model,
        policy=args.policy,
        vendor=args.vendor,
        max_used_percent=args.max_used,
        same_node=args.same_node,
        # Of this process, so it says nothing about other machines.
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES") if fleet.is_local else None,
    )
    offer, local = _find_offer(args, fleet, request)
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json(offer, pretty=True).decode() + "\n")
    elif args.why:
        sys.stdout.write(_explanation(args, offer, local))
    elif offer.unmet is None:
        print(_devices(args, offer, local))
    # After the output: --json and -v explain the shortage, and the exit code still says it.
    if offer.unmet is not None:
        fleet_source.require_answer(fleet)
        failures: list[str] = []
        if local is not None:
            require_a_gpu(local)
            failures = [text for node in local.nodes for text in node.failures]
        raise Unmet("; ".join([offer.unmet, *_expectation(offer), *failures]))
    return 0


def _hold(args: argparse.Namespace) -> int:
    """Lease the best free GPUs of this machine for a while, and print them."""
    elsewhere = args.hub or args.ssh or args.dir or args.replay or args.at
    if elsewhere or args.ssh_line or args.json or args.why:
        raise UsageError("--hold leases GPUs of this machine: without --hub, --ssh, --json or -v")
    if args.policy != "free":
        raise UsageError("--hold leases GPUs that nobody uses: without --policy")
    from fleet_smi.cli import lease_holder

    return lease_holder.hold_free(args)


def _find_offer(
    args: argparse.Namespace, fleet: fleet_source.FleetSource, request: "GpuRequest"
) -> "tuple[Offer | BriefOffer, FleetView | None]":
    """Return the offer, and the local view if the fleet is only this machine."""
    if isinstance(fleet, fleet_source.HubFleet):
        if args.json:
            return fleet.free(request, explain=True), None
        return fleet.offers(request, explain=args.why), None
    from fleet_smi.model.select import find_offer

    view = fleet.view()
    return find_offer(view, request, fleet.thresholds), view if fleet.is_local else None


def _expectation(offer: "Offer | BriefOffer") -> list[str]:
    """Say when it can probably be met, where the hub knows that."""
    if offer.expected is None:
        return []
    from fleet_smi.terminal.view.expected import format_expected

    text = format_expected(offer.expected, offer.taken_at)
    return [text] if text else []


def _devices(
    args: argparse.Namespace, offer: "Offer | BriefOffer", local: "FleetView | None"
) -> str:
    if args.ssh_line:
        return "\n".join(_ssh_lines(args, offer.offered))
    if local is not None and not args.uuid:
        warn_about_device_order(local)
    if local is not None or args.uuid:
        return ",".join(cuda_devices(offer.offered, uuid=args.uuid))
    return ",".join(candidate_labels(offer.offered))


def _ssh_lines(
    args: argparse.Namespace, offered: "Sequence[Candidate | OfferedDevice]"
) -> "Iterator[str]":
    """Yield an ssh command per node that opens a shell there with only these GPUs visible."""
    from shlex import quote

    from fleet_smi.cli.ssh_destination import ssh_destination

    by_node: dict[str, list[Candidate | OfferedDevice]] = {}
    for candidate in offered:
        by_node.setdefault(candidate.node_id, []).append(candidate)
    for candidates in by_node.values():
        visible = quote(",".join(cuda_devices(candidates, uuid=args.uuid)))
        # Indices count in PCI bus order here, CUDA's default order is by speed.
        order = "" if args.uuid else "CUDA_DEVICE_ORDER=PCI_BUS_ID "
        shell = quote(f"{order}CUDA_VISIBLE_DEVICES={visible} exec $SHELL -l")
        # "--": a node chooses its own name, which may look like an option.
        destination = ssh_destination(candidates[0], (args.ssh or "").split(","))
        yield f"ssh -t -- {quote(destination)} {shell}"


def _explanation(
    args: argparse.Namespace, offer: "Offer | BriefOffer", local: "FleetView | None"
) -> str:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import free

    paint = Paint(enabled=output.use_colour(args))
    local_node_id = local.nodes[0].node_id if local is not None and local.nodes else None
    banner = output.history_banner(args, offer, paint)
    return banner + free.render(
        offer, output.output_columns(), paint, now=offer.taken_at, local_node_id=local_node_id
    )
