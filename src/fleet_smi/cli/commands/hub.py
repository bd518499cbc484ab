"""`fleet-smi hub`: run the hub, or manage its tokens and users."""

import argparse

from fleet_smi.cli import hub_access, run_hub

HELP = "run the hub, which collects the reports of all nodes; manage its tokens and users"
EXAMPLES = """\
  fleet-smi hub                                    this machine only, port 7070
  fleet-smi hub token add --role viewer            nobody has access without a token or user
  fleet-smi hub --listen :7070 --tls self-signed
  fleet-smi hub join-command                       the command to run on a new node
  fleet-smi hub --ssh 'gpu*' --files /nfs/gpu-status   nodes that run no agent
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the hub and the subcommands that manage access."""
    run_hub.add_hub_arguments(parser)
    hub_access.add_parsers(parser.add_subparsers(dest="action", metavar="ACTION"))


def run(args: argparse.Namespace) -> int:
    """Run the hub until a signal, or run a subcommand."""
    if args.action is not None:
        return hub_access.run(args)
    return run_hub.run(run_hub.load_settings(args))
