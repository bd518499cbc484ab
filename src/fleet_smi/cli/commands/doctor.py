"""`fleet-smi doctor`: health checks of this machine, each with a remedy."""

import argparse
import sys

from fleet_smi.cli import output
from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

HELP = "check the driver, its library, permissions and GPUs of this machine, and suggest fixes"
EXAMPLES = """\
  fleet-smi doctor               PASS, WARN or FAIL for each check
  fleet-smi doctor --json        the same as JSON
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output flags."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the checks and print them; return 1 if one failed."""
    reader = start_reader()
    machine = open_local_fleet(reader, full=True)
    # Imported while the reader process loads the driver.
    from fleet_smi import config
    from fleet_smi.node.doctor import diagnose
    from fleet_smi.node.reader_types import ReadTimeouts

    snapshot, root = machine.snapshot(), config.load().node.root
    (environment,) = reader.read([("environment", {"root": root})], ReadTimeouts(0.5, 0.5))
    results = diagnose(snapshot, environment.value or {})
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json({"findings": results}, pretty=True).decode() + "\n")
    else:
        from fleet_smi.terminal.paint import Paint
        from fleet_smi.terminal.view import doctor

        paint = Paint(enabled=output.use_colour(args))
        sys.stdout.write(doctor.render(results, output.output_columns(), paint))
    return 1 if any(result.status == "FAIL" for result in results) else 0
