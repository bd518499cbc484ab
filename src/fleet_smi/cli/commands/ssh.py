"""`fleet-smi ssh trust`: add the host keys of many machines to known_hosts."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.hub.ssh_trust import HostKeys

HELP = "prepare nodes that are read over ssh: trust their host keys"
EXAMPLES = """\
  fleet-smi ssh trust gpu01 gpu02 'lab-*'        show their fingerprints, then ask
  sudo fleet-smi ssh trust --system              the hosts of hub.ssh, for the hub's service
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action, the hosts and where their keys go."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    trust = actions.add_parser("trust", help="show host keys, and add them to known_hosts")
    add = trust.add_argument
    add("hosts", nargs="*", metavar="HOST", help="hosts, or patterns (default: hub.ssh)")
    where = trust.add_mutually_exclusive_group()
    where.add_argument("--system", action="store_true", help="for every user: /etc/ssh")
    where.add_argument("--known-hosts", metavar="FILE", help="another file (~/.ssh/known_hosts)")
    add("--yes", action="store_true", help="add them without asking; the fingerprints are printed")


def run(args: argparse.Namespace) -> int:
    """Show the fingerprints, ask, and add the keys; return 1 if a host is left out."""
    from fleet_smi.hub.ssh_trust import (
        SYSTEM_KNOWN_HOSTS,
        USER_KNOWN_HOSTS,
        add_known_hosts,
        scan_hosts,
    )

    hosts, config = _hosts(args)
    file = SYSTEM_KNOWN_HOSTS if args.system else args.known_hosts or USER_KNOWN_HOSTS
    results = scan_hosts(hosts, file, config)
    _print(results)
    new = [line for result in results if result.status == "new" for line in result.lines]
    if new:
        _confirm(args, file)
        add_known_hosts(file, new)
        print(f"added {len(new)} {'key' if len(new) == 1 else 'keys'} to {file}")
    return 1 if any(result.status in ("changed", "failed") for result in results) else 0


def _hosts(args: argparse.Namespace) -> tuple[list[str], str | None]:
    """The hosts of the command line or, without any, those of the settings; and the ssh_config."""
    from fleet_smi.config import load
    from fleet_smi.hub.ssh_hosts import expand_hosts, read_hosts_file

    hub = load().hub
    names = [name for argument in args.hosts for name in argument.split(",") if name]
    if not names:
        names = [*hub.ssh, *(read_hosts_file(hub.ssh_hosts_file) if hub.ssh_hosts_file else ())]
    if not names:
        raise UsageError("which hosts? Name them, or set hub.ssh")
    return expand_hosts(names, hub.ssh_config), hub.ssh_config


def _print(results: "list[HostKeys]") -> None:
    width = max(len(result.host) for result in results)
    for result in results:
        name = result.host.ljust(width)
        if result.message:
            print(f"{name}  {result.status.upper()}: {result.message}")
        elif result.status == "known":
            print(f"{name}  known already")
        for key_type, fingerprint in result.fingerprints if result.status != "known" else ():
            print(f"{name}  {fingerprint}  {key_type}")


def _confirm(args: argparse.Namespace, file: str) -> None:
    """Raise `Unmet` unless the admin agrees."""
    if args.yes:
        return
    print("Compare them with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on each machine.")
    if not sys.stdin.isatty():
        raise Unmet("nothing was added: there is no terminal to ask on; give --yes")
    if input(f"Add these keys to {file}? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Unmet("nothing was added")
