"""`fleet-smi claim`: a lease for what already runs."""

import argparse

HELP = "lease the GPUs that a process of yours already uses, until it ends"
EXAMPLES = """\
  fleet-smi claim                all GPUs that your processes use without a lease
  fleet-smi claim 4711           only those of this process
  fleet-smi claim --note demo    say what it is for
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the process and the note."""
    parser.add_argument("pid", nargs="?", type=int, metavar="PID", help="only this process")
    parser.add_argument("--note", metavar="TEXT", help="what it is for, shown to everybody")


def run(args: argparse.Namespace) -> int:
    """Take the leases and keep them in the background."""
    from fleet_smi.cli import lease_holder

    return lease_holder.claim(args.pid, args.note)
