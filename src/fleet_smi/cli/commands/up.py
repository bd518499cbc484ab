"""`fleet-smi up`: a hub, this machine and the page, in one process."""

import argparse
from typing import TYPE_CHECKING

from fleet_smi.cli import run_hub

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.server.hub_server import HubServer

HELP = "everything in one process: a hub, this machine in it, and its page"
EXAMPLES = """\
  fleet-smi up                                     this machine, on http://127.0.0.1:7070
  fleet-smi up --listen :7070 --tls self-signed    for others too: prints a token for them, and
                                                   the line to paste on other machines
"""
_JOIN_SECONDS = 7 * 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the hub."""
    run_hub.add_hub_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run until told to end."""
    from fleet_smi.hub.sources import build_sources
    from fleet_smi.server.hub_server import HubServer

    args.include_self = True
    settings = run_hub.load_settings(args)
    run_hub.configure_logging()
    _make_first_token(settings)
    sources = build_sources(settings)
    with HubServer(settings.hub, sources, settings.thresholds) as server:
        _greet(server, settings)
        run_hub.serve_until_signal(server)
    return 0


def _make_first_token(settings: "Settings") -> None:
    """A hub that others reach needs somebody who may look: the first time, make a token."""
    from contextlib import ExitStack
    from pathlib import Path

    from fleet_smi.config.ip_addresses import is_loopback
    from fleet_smi.hub.credentials import CredentialCache
    from fleet_smi.hub.database import open_database
    from fleet_smi.server.uvicorn_server import bind_socket

    if is_loopback(settings.hub.listen.host) or settings.hub.insecure_open:
        return
    with ExitStack() as stack:
        # What is shown once must not be shown for nothing.
        bind_socket(*settings.hub.listen).close()
        engine = open_database(Path(settings.hub.state))
        stack.callback(engine.dispose)
        credentials = CredentialCache(engine)
        stack.callback(credentials.close)
        if not credentials.has_viewer_credentials and not settings.hub.trusted_proxies:
            issued = credentials.tokens.add("viewer", "made by `fleet-smi up`")
            print(f"a token to look with, shown this once: {issued.secret}")


def _greet(server: "HubServer", settings: "Settings") -> None:
    from fleet_smi.config.ip_addresses import is_loopback
    from fleet_smi.server.tls import join_command

    print(f"this machine is in; open  {server.url}  or run  fleet-smi --hub {server.url}")
    if is_loopback(settings.hub.listen.host):
        print("other machines cannot reach it: `fleet-smi up --listen :7070` lets them")
    else:
        join = server.credentials.tokens.add(
            "join", "made by `fleet-smi up`", lifetime_seconds=_JOIN_SECONDS
        )
        line = join_command(server.url, join.secret, server.fingerprint)
        print(f"to add another machine, run there (good for 7 days):\n  {line}")
        print(f"for people, in ~/.config/fleet-smi/fleet-smi.toml:\n{_client_settings(server)}")
    if server.warning:
        print(f"take care: {server.warning}")
    print("Ctrl-C ends it", flush=True)


def _client_settings(server: "HubServer") -> str:
    lines = ["[client]", f'hub = "{server.url}"', 'token = "…"']
    if server.fingerprint is not None:
        lines.append(f'fingerprint = "{server.fingerprint}"')
    return "\n".join(f"  {line}" for line in lines)
