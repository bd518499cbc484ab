"""`fleet-smi history`: a timeline of each GPU, queried from a hub."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.history import Strips

HELP = "show a timeline of each GPU: who used it, how busy it was, when it was free (needs a hub)"
EXAMPLES = """\
  fleet-smi history                          the last hour of every GPU
  fleet-smi history --since 24h --node gpu01,gpu02
  fleet-smi history --since 'Mon 09:00' --until 'Mon 18:00'
  fleet-smi history --since 7d --filter 'model:A100 label:rack=a'
  fleet-smi history --since 7d --format csv > week.csv
"""
_EXPORT_COLUMNS = 500  # time slots of JSON and CSV, whatever the terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the time range, the filter and the output format."""
    add = parser.add_argument
    add("--since", metavar="TIME", default="1h", help="start: 1h, 24h, 7d ago, or a time (1h)")
    add("--until", metavar="TIME", default="now", help="end: 14:00, 'yesterday 18:00', -2h (now)")
    add("--node", metavar="NAME[,NAME]", help="only these nodes; * matches anything, like gpu0*")
    add("--filter", metavar="TEXT", help="only matching GPUs, like 'model:A100 -label:test'")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--format", choices=("csv",), help="as CSV, one row per run")
    fleet_source.add_hub_argument(parser)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Query the strips and print them."""
    from fleet_smi.terminal.view.history_strip import strip_columns

    on_screen = not (args.json or args.format)
    # One time slot per terminal column: the hub aggregates, the screen only draws.
    columns = strip_columns(output.output_columns()) if on_screen else _EXPORT_COLUMNS
    hub = fleet_source.hub_client(args)
    strips = hub.strips(args.since, args.until, columns=columns, filter=_filter(args))
    if on_screen:
        sys.stdout.write(_screen(args, strips, hub.fleet(args.until)))
    else:
        sys.stdout.write(_export(args, strips))
    return 0


def _filter(args: argparse.Namespace) -> str | None:
    terms = [args.filter] if args.filter else []
    if args.node is not None:
        # A quote would end the quoted name in the filter, and the rest would be parsed as terms.
        if '"' in args.node or not args.node.strip():
            raise UsageError(f"--node {args.node!r}: give node names, like gpu01,gpu02")
        terms.append("node:" + ",".join(f'"{name}"' for name in args.node.split(",")))
    return " ".join(terms) or None


def _export(args: argparse.Namespace, strips: "Strips") -> str:
    if args.json:
        from fleet_smi.wire.json import to_json

        return to_json(strips, pretty=True).decode() + "\n"
    from fleet_smi.wire.history_csv import strips_csv

    return strips_csv(strips)


def _screen(args: argparse.Namespace, strips: "Strips", end_view: "FleetView") -> str:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import history_strip

    # A strip up to now ends at the hub's clock, which may differ from ours.
    now = strips.end if args.until == "now" else time.time()
    paint = Paint(enabled=output.use_colour(args))
    return history_strip.render(strips, end_view, output.output_columns(), paint, now=now)
