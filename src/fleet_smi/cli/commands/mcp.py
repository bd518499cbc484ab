"""`fleet-smi mcp`: answer an assistant's questions about the fleet (Model Context Protocol)."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.config.addresses import ListenAddress
    from fleet_smi.mcp.fleet_access import FleetAccess
    from fleet_smi.model.fleet import FleetView

HELP = "let an assistant find GPUs, see who has them and why work is slow, over stdio or HTTP"
EXAMPLES = """\
  fleet-smi mcp                          for an assistant that starts it: this machine, or the hub
  fleet-smi mcp --hub https://gpuhub:7070    with the token of `fleet-smi login`
  fleet-smi mcp --allow-actions          it may also queue you, and cancel that again
  fleet-smi mcp --http 7071              over HTTP, on this machine alone; prints a token
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the transport, the fleet and what is allowed."""
    add = parser.add_argument
    add(
        "--allow-actions",
        action="store_true",
        help="may also queue for GPUs in your name (needs a hub)",
    )
    add("--http", metavar="ADDRESS", help="serve HTTP there, like 7071, instead of stdio")
    add("--token-file", metavar="FILE", help="the token for HTTP (default: a new one, printed)")
    add("--no-token", action="store_true", help="HTTP without a token: loopback, read-only")
    add("--host", metavar="NAME", action="append", default=[], help="also answer to this host name")
    fleet_source.add_fleet_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the client closes its end, or until interrupted."""
    address = _address(args)
    access = _access(args)
    import anyio

    from fleet_smi.mcp.server import create_server, serve_stdio
    from fleet_smi.mcp.tools import offered_tools

    tools = offered_tools(has_hub=access.hub is not None, may_act=args.allow_actions)
    server = create_server(access, tools)
    if address is None:
        anyio.run(partial(serve_stdio, server))
        return 0
    from fleet_smi.mcp.http_service import serve_http

    token = _token(args)
    if args.allow_actions:
        print("fleet-smi: everybody who has the token acts in your name", file=sys.stderr)
    serve_http(server, address, token=token, more_hosts=args.host)
    return 0


def _address(args: argparse.Namespace) -> "ListenAddress | None":
    """Return where to listen; raise `UsageError` for flags that do not fit together."""
    if args.http is None:
        if args.token_file or args.no_token or args.host:
            raise UsageError("--token-file, --no-token and --host are for --http")
        return None
    from fleet_smi.config.addresses import parse_listen_address
    from fleet_smi.config.ip_addresses import is_loopback

    try:
        address = parse_listen_address(args.http)
    except ValueError as error:
        raise UsageError(f"--http {args.http} {error}") from None
    if args.no_token and (args.token_file or args.allow_actions or not is_loopback(address.host)):
        # Every user of a machine can reach its loopback: none of them may act as another.
        raise UsageError("--no-token is for loopback without --allow-actions and --token-file")
    return address


def _access(args: argparse.Namespace) -> "FleetAccess":
    from fleet_smi.mcp.fleet_access import FleetAccess

    fleet = fleet_source.select_fleet(args, own_hub=True, quiet=True)
    hub = fleet.client if isinstance(fleet, fleet_source.HubFleet) else None
    if args.allow_actions and hub is None:
        raise UsageError("--allow-actions needs a hub: give --hub URL, or set client.hub")

    def view() -> "FleetView":
        found = fleet.view()
        fleet_source.require_answer(fleet)
        return found

    from fleet_smi.acting import acting_client

    act = partial(acting_client, args.hub) if args.allow_actions else None
    return FleetAccess(view, fleet.thresholds, hub=hub, act=act)


def _token(args: argparse.Namespace) -> str | None:
    """Return the token of the file, or a new one, which is printed."""
    if args.no_token:
        return None
    if args.token_file:
        from fleet_smi.client.private_file import read_private

        content = read_private(args.token_file)
        token = "" if content is None else content.decode("utf-8", "replace").strip()
        if len(token) < 16 or not token.isascii() or not token.isprintable():
            raise UsageError(f"{args.token_file}: no token of 16 characters or more in it")
        return token
    from secrets import token_urlsafe

    token = token_urlsafe(24)
    print(f"fleet-smi: token for this run: {token}", file=sys.stderr)
    return token
