"""`fleet-smi doctor`: is this machine well, and if not, what to do."""

import argparse
import sys

from fleet_smi.cli import output
from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

HELP = "check driver, library, permissions and GPUs of this machine and say what to do"
EXAMPLES = """\
  fleet-smi doctor               PASS, WARN or FAIL for each check
  fleet-smi doctor --json        the same for a program
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the check-up."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Check, print, and fail if a check failed."""
    reader = start_reader()
    machine = open_local_fleet(reader, full=True)
    from fleet_smi import config
    from fleet_smi.node.doctor import diagnose

    snapshot, root = machine.snapshot(), config.load().node.root
    (environment,) = reader.read([("environment", {"root": root})], 0.5, 0.5)
    found = diagnose(snapshot, environment.value or {})
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json({"findings": found}, pretty=True).decode() + "\n")
    else:
        from fleet_smi.terminal.paint import Paint
        from fleet_smi.terminal.view import doctor

        paint = Paint(enabled=output.use_colour(args))
        sys.stdout.write(doctor.render(found, output.output_columns(), paint))
    return 1 if any(finding.status == "FAIL" for finding in found) else 0
