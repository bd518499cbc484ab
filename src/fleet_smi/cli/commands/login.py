"""`fleet-smi login`: say once who you are, for commands that act in your name at a hub."""

import argparse
import getpass
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import Refused, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.model.accounts import SessionInfo

HELP = "log in at a hub, with a password or a personal token, for this user's commands"
EXAMPLES = """\
  fleet-smi login                              asks for your name and password
  fleet-smi login --hub https://gpuhub:7070    another hub than client.hub
  fleet-smi login --token-file token.txt       a personal token that an admin gave you
  pass show gpuhub | fleet-smi login --name alice

On a node with an agent no login is needed: the agent knows who you are.
"""
_MAX_SECRET_CHARACTERS = 4096
_TOKEN_PREFIX = "fsmi_"  # noqa: S105  # how every token begins


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--hub", metavar="URL", help="the hub (default: client.hub)")
    add("--fingerprint", metavar="sha256:…", help="accept only this certificate of the hub")
    add("--name", metavar="NAME", help="your name there (default: asked for, else your user name)")
    add("--token-file", metavar="FILE", help="read a personal token from this file; - is stdin")


def run(args: argparse.Namespace) -> int:
    """Log in and save the token for this user."""
    from fleet_smi import config
    from fleet_smi.cli.lease_keeper import say
    from fleet_smi.client.connection import parse_hub_url
    from fleet_smi.client.hub import HubClient
    from fleet_smi.client.login_file import Login, LoginFile
    from fleet_smi.config.ip_addresses import is_loopback
    from fleet_smi.paths import login_file

    settings = config.load(
        flags={"client.hub": args.hub, "client.fingerprint": args.fingerprint}
    ).client
    url = settings.hub
    if url is None:
        raise UsageError("no hub given: use --hub URL, or set client.hub in fleet-smi.toml")
    scheme, host, _, _ = parse_hub_url(url)
    if scheme == "http" and not is_loopback(host):
        say(f"{url} is not encrypted: others on the network can read what is sent to it")
    fingerprint = settings.fingerprint
    logins = LoginFile(login_file(os.environ))
    logins.get(url)  # a file that cannot be used is said before a password is asked for
    token = _obtain_token(args, HubClient(url, fingerprint=fingerprint))
    session = HubClient(url, token=token, fingerprint=fingerprint).session()
    person = _require_person(session)
    logins.store(url, Login(token=token, person=person, fingerprint=fingerprint))
    print(f"logged in at {url} as {person} ({session.role})")
    return 0


def _obtain_token(args: argparse.Namespace, hub: "HubClient") -> str:
    """Return a personal token: the one that is given, or one in exchange for a password."""
    if args.token_file is not None:
        return _require_token(_read_file(args.token_file))
    try:
        name, secret = _prompt(args.name)
    except EOFError:
        raise UsageError("no password given: nothing was changed") from None
    if secret.startswith(_TOKEN_PREFIX):
        return _require_token(secret)
    if not secret:
        raise UsageError("no password given: nothing was changed")
    return hub.create_personal_token(name, secret, f"login on {os.uname().nodename}"[:128]).token


def _prompt(name: str | None) -> tuple[str, str]:
    """Ask for what is not given; without a terminal, read a line from stdin."""
    if not sys.stdin.isatty():
        secret = sys.stdin.readline(_MAX_SECRET_CHARACTERS).rstrip("\r\n")
        return name or getpass.getuser(), secret
    if name is None:
        name = input(f"Name ({getpass.getuser()}): ").strip()
    return name or getpass.getuser(), getpass.getpass("Password, or personal token: ")


def _read_file(path: str) -> str:
    if path == "-":
        return sys.stdin.readline(_MAX_SECRET_CHARACTERS)
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read(_MAX_SECRET_CHARACTERS)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise UsageError(f"--token-file {path}: {reason}") from None


def _require_token(text: str) -> str:
    from fleet_smi.config.value_types import SECRET

    try:
        return str(SECRET.parse(text))
    except ValueError as error:
        raise UsageError(f"what was given {error}") from None


def _require_person(session: "SessionInfo") -> str:
    if session.person is None:
        raise Refused(
            "this token belongs to nobody in particular: ask an admin for one of yours "
            "(`fleet-smi hub token add --role viewer --person NAME`)"
        )
    return session.person
