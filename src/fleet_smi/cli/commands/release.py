"""`fleet-smi release`: end leases of `claim` and `free --hold`."""

import argparse
import os
import signal

from fleet_smi.errors import NotPresent, Unmet, UsageError

HELP = "give back GPUs of this machine that `claim` or `free --hold` has leased for you"
EXAMPLES = """\
  fleet-smi release                  all of them
  fleet-smi release GPU-3f2a9c1d     only this GPU, by the beginning of its UUID
"""
_KINDS = ("hold", "claim")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the GPU."""
    parser.add_argument("uuid", nargs="?", metavar="UUID", help="only this GPU or instance")


def run(args: argparse.Namespace) -> int:
    """End the holders of these leases."""
    from fleet_smi import config
    from fleet_smi.node.bindings.leases import read

    try:
        rows = read(folder=config.load().node.lease_dir)
    except NotPresent:
        rows = []
    own = [row for row in rows if row["uid"] == os.geteuid()]
    if args.uuid is not None:
        own = [row for row in own if row["uuid"].startswith(args.uuid)]
        if not own:
            raise UsageError(f"no lease of yours on {args.uuid}: see `fleet-smi leases`")
    held = [row for row in own if row["details"].get("kind") in _KINDS]
    if not held:
        running = "; those of `fleet-smi run` end with their job" if own else ""
        raise Unmet(f"nothing to release{running}")
    # A holder may have several GPUs; it releases them all.
    for pid in {row["pid"] for row in held}:
        os.kill(pid, signal.SIGTERM)
    return 0
