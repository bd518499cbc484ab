"""`fleet-smi leases`: who has leased which GPU, and who uses one without a lease."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output

if TYPE_CHECKING:
    from fleet_smi.model.leases import LeaseRow

HELP = "list leased GPUs with their holders, and GPUs that are used without a lease"
EXAMPLES = """\
  fleet-smi leases               this machine, or the hub's fleet
  fleet-smi leases --here        only this machine
  fleet-smi leases --json        as JSON
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the fleet and the output flags."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    fleet_source.add_fleet_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the leases."""
    fleet = fleet_source.select_fleet(args, own_hub=True)
    from fleet_smi.model.leases import list_leases

    view = fleet.view()
    rows = list_leases(view)
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json({"leases": rows}, pretty=True).decode() + "\n")
    else:
        from fleet_smi.terminal.view.plain_table import render_table

        heads = ("GPU", "HOLDER", "FOR", "LEFT", "STATE", "COMMAND", "NOTE")
        cells = [_cells(row, view.taken_at) for row in rows]
        empty = "no GPU is leased or in use"
        sys.stdout.write(render_table(heads, cells, output.output_columns(), empty))
    fleet_source.require_answer(fleet)
    return 0


def _cells(row: "LeaseRow", now: float) -> tuple[str, ...]:
    from fleet_smi.model.units import format_duration

    lease = row.lease
    if lease is None:
        return (row.label, row.holder, "", "", row.state, "", "without lease")
    left = "" if lease.until is None else format_duration(max(0.0, lease.until - now))
    return (
        row.label,
        row.holder,
        format_duration(max(0.0, now - lease.taken_at)),
        left,
        row.state,
        lease.command or "",
        lease.note or "",
    )
