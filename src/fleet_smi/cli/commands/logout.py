"""`fleet-smi logout`: revoke and forget the token of `fleet-smi login`."""

import argparse
import os

from fleet_smi.errors import DeliveryError, UsageError

HELP = "log out at a hub: revoke the token of `login` and remove it from this user's files"
EXAMPLES = """\
  fleet-smi logout
  fleet-smi logout --hub https://gpuhub:7070
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flag."""
    parser.add_argument("--hub", metavar="URL", help="the hub (default: client.hub)")


def run(args: argparse.Namespace) -> int:
    """Revoke the token at the hub, and forget it whether or not the hub answers."""
    from fleet_smi import config
    from fleet_smi.acting import find_login, login_client
    from fleet_smi.cli.lease_keeper import say
    from fleet_smi.client.login_file import LoginFile
    from fleet_smi.paths import login_file

    found = find_login(config.load(flags={"client.hub": args.hub}))
    if found is None:
        where = f" at {args.hub}" if args.hub else ""
        raise UsageError(f"you are not logged in{where}")
    url, login = found
    try:
        login_client(url, login).revoke_current_token()
    except (DeliveryError, UsageError) as error:
        say(f"the token is forgotten here, but was not revoked: {error}")
    LoginFile(login_file(os.environ)).remove(url)
    print(f"logged out at {url}")
    return 0
