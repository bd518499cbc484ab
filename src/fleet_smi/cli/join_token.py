"""The join token of an agent: how it is given without staying visible to other users.

Every user of a machine can read the arguments of every process. So the token comes by standard
input (`--join-file -`), a file or a variable; one that was given as an argument is overwritten.
"""

import argparse
import os
import sys

from fleet_smi.errors import UsageError
from fleet_smi.node.bindings.own_memory import erase_argument, erase_variable

_VARIABLE = "FLEET_SMI_AGENT_JOIN"
_STDIN = "-"
_MAX_TOKEN_BYTES = 4096


def add_join_arguments(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add `--join-file`, and `--join` for lines that older hubs printed."""
    parser.add_argument(
        "--join-file",
        metavar="FILE",
        help=f"{prefix}file with the hub's join token, needed the first time; - for standard input",
    )
    parser.add_argument(
        "--join", metavar="TOKEN", help=f"{prefix}the token itself: others can see it; deprecated"
    )


def take_join_token(args: argparse.Namespace) -> str | None:
    """Return the token of `--join` or of standard input, and hide it from other processes.

    Afterwards `args.join_file` is a path or `None`. Raise `UsageError` for an empty input.
    """
    token: str | None = args.join
    if token is not None:
        print(
            "fleet-smi: warning: --join shows the token to every user of this machine: give it "
            "with --join-file, by - for standard input",
            file=sys.stderr,
        )
        erase_argument(token)
    if args.join_file == _STDIN:
        args.join_file = None
        token = sys.stdin.readline(_MAX_TOKEN_BYTES).strip()
        if not token:
            raise UsageError("--join-file -: there is no token on standard input")
    return token


def clear_join_variable() -> None:
    """Remove the token from the environment of this process and of those that it starts."""
    token = os.environ.pop(_VARIABLE, None)
    if token:
        erase_variable(token)
