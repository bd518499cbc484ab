"""`fleet-smi hub`: what runs once, in the middle; and who may use it."""

import argparse

from fleet_smi.cli import hub_access, run_hub

HELP = "run the hub, which hears every node; make tokens and people who may use it"
EXAMPLES = """\
  fleet-smi hub                                    on this machine alone, port 7070
  fleet-smi hub token add --role viewer            then it may listen for others:
  fleet-smi hub --listen :7070 --tls self-signed
  fleet-smi hub join-command                       the line to paste on a node
  fleet-smi hub --ssh 'gpu*' --files /nfs/gpu-status   nodes that run no agent
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the hub, and the commands about its users."""
    run_hub.add_hub_arguments(parser)
    hub_access.add_parsers(parser.add_subparsers(dest="action", metavar="ACTION"))


def run(args: argparse.Namespace) -> int:
    """Run the hub until told to end, or change who may use it."""
    if args.action is not None:
        return hub_access.run(args)
    return run_hub.run(run_hub.load_settings(args))
