"""`fleet-smi history`: what happened on each GPU, as a strip of time."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.history import Strips

HELP = "what happened on each GPU: who had it, how busy it was, when it was free; asks a hub"
EXAMPLES = """\
  fleet-smi history                          the last hour of every GPU
  fleet-smi history --since 24h --node gpu01,gpu02
  fleet-smi history --since 'Mon 09:00' --until 'Mon 18:00'
  fleet-smi history --since 7d --filter 'model:A100 label:rack=a'
  fleet-smi history --since 7d --format csv > week.csv
"""
_COLUMNS_FOR_PROGRAMS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The range, which GPUs, and in what form."""
    add = parser.add_argument
    add("--since", metavar="TIME", default="1h", help="so long back (1h, 24h, 7d), or a moment")
    add("--until", metavar="MOMENT", default="now", help="the end: 14:00, 'yesterday 18:00', -2h")
    add("--node", metavar="NAME[,NAME]", help="only these nodes; * is anything, like gpu0*")
    add("--filter", metavar="TEXT", help="only what matches, like 'model:A100 -label:test'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--format", choices=("csv",), help="one row a run, as CSV")
    fleet_source.add_hub_argument(parser)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the strip."""
    from fleet_smi.terminal.view.history_strip import strip_columns

    for_eyes = not (args.json or args.format)
    columns = strip_columns(output.output_columns()) if for_eyes else _COLUMNS_FOR_PROGRAMS
    hub = fleet_source.hub_client(args)
    strips = hub.strips(args.since, args.until, columns=columns, filter=_filter(args))
    if for_eyes:
        sys.stdout.write(_screen(args, strips, hub.fleet(args.until)))
    else:
        sys.stdout.write(_listing(args, strips))
    return 0


def _filter(args: argparse.Namespace) -> str | None:
    words = [args.filter] if args.filter else []
    if args.node is not None:
        if '"' in args.node or not args.node.strip():
            raise UsageError(f"--node {args.node!r}: give names of nodes, like gpu01,gpu02")
        words.append("node:" + ",".join(f'"{name}"' for name in args.node.split(",")))
    return " ".join(words) or None


def _listing(args: argparse.Namespace, strips: "Strips") -> str:
    if args.json:
        from fleet_smi.wire.json import to_json

        return to_json(strips, pretty=True).decode() + "\n"
    from fleet_smi.wire.history_csv import strips_csv

    return strips_csv(strips)


def _screen(args: argparse.Namespace, strips: "Strips", then: "FleetView") -> str:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import history_strip

    # By the hub's clock, where the strip ends now.
    now = strips.end if args.until == "now" else time.time()
    paint = Paint(enabled=output.use_colour(args))
    return history_strip.render(strips, then, output.output_columns(), paint, now=now)
