"""`fleet-smi up`: run a hub, this machine's reports and the web page in one process."""

import argparse
import secrets
from typing import TYPE_CHECKING

from fleet_smi.cli import run_hub
from fleet_smi.cli.program_name import program_name

if TYPE_CHECKING:
    from fleet_smi.cli.join_address import JoinAddress
    from fleet_smi.config import Settings
    from fleet_smi.server.hub_server import HubServer

HELP = "run a hub with this machine in it, and the web page, in one process"
EXAMPLES = """\
  fleet-smi up                                     this machine, on http://127.0.0.1:7070
  fleet-smi up --listen :7070 --tls self-signed    open to others: prints a login, a token and
                                                   the command to run on other machines
"""


_FIRST_USER = "viewer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the hub."""
    run_hub.add_hub_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run until a signal."""
    from fleet_smi.hub.sources import build_sources
    from fleet_smi.server.hub_server import HubServer

    args.include_self = True
    settings = run_hub.load_settings(args)
    run_hub.configure_logging()
    _create_first_access(settings)
    sources = build_sources(settings)
    with HubServer(settings.hub, sources, settings.thresholds) as server:
        _print_instructions(server, settings)
        run_hub.serve_until_signal(server)
    return 0


def _create_first_access(settings: "Settings") -> None:
    """Create and print a login and a token if the hub is for others and nobody has access yet."""
    from contextlib import ExitStack

    from fleet_smi.config.ip_addresses import is_loopback
    from fleet_smi.hub.cluster.state_database import open_state
    from fleet_smi.hub.credentials import CredentialCache
    from fleet_smi.server.uvicorn_server import bind_sockets

    if is_loopback(settings.hub.listen.host) or settings.hub.insecure_open:
        return
    with ExitStack() as stack:
        # Fail now if the address is taken: the token is printed only once.
        for bound in bind_sockets(*settings.hub.listen):
            bound.close()
        engine = open_state(settings.hub)
        stack.callback(engine.dispose)
        credentials = CredentialCache(engine)
        stack.callback(credentials.close)
        # Behind a trusted proxy, users are authenticated by the proxy and need no token.
        if not credentials.has_viewer_credentials and not settings.hub.trusted_proxies:
            password = secrets.token_urlsafe(12)
            credentials.users.add(_FIRST_USER, password)
            issued = credentials.tokens.add("viewer", "made by `fleet-smi up`")
            print(f"to log in on the page, shown only once: {_FIRST_USER} / {password}")
            print(f"viewer token for commands, shown only once: {issued.secret}")


def _print_instructions(server: "HubServer", settings: "Settings") -> None:
    """Print where the page is, how to add machines, and the settings for users."""
    from fleet_smi.cli.join_address import join_address
    from fleet_smi.config.ip_addresses import is_loopback
    from fleet_smi.hub.tokens import JOIN_LIFETIME_SECONDS, JOIN_MAX_USES
    from fleet_smi.server.install_script import script_checksum
    from fleet_smi.server.join_line import describe_limits, install_command, join_command

    print(f"running: open  {server.url}  or run  {program_name()} --hub {server.url}")
    if is_loopback(settings.hub.listen.host):
        listen = f"{program_name()} up --listen :7070 --tls self-signed"
        print(f"for this machine only; to let others connect: {listen}")
    else:
        join = server.credentials.tokens.add("join", "made by `fleet-smi up`")
        address = join_address(settings, None)
        sha256 = script_checksum(server.wheelhouse)
        line = (
            join_command(address.url, join.secret, address.fingerprint)
            if sha256 is None
            else install_command(address.url, join.secret, sha256, address.fingerprint)
        )
        limits = describe_limits(JOIN_LIFETIME_SECONDS, JOIN_MAX_USES)
        print(f"to add machines, run this line on each ({limits}):\n  {line}")
        print(f"users put this in ~/.config/fleet-smi/fleet-smi.toml:\n{_client_settings(address)}")
    if server.warning:
        print(f"warning: {server.warning}")
    print("press Ctrl-C to stop", flush=True)


def _client_settings(address: "JoinAddress") -> str:
    lines = ["[client]", f'hub = "{address.url}"', 'token = "…"']
    if address.fingerprint is not None:
        lines.append(f'fingerprint = "{address.fingerprint}"')
    return "\n".join(f"  {line}" for line in lines)
