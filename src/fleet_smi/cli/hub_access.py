"""`fleet-smi hub token|user|join-command`: who may use the hub.

They work on the hub's own database, running or not; a hub that runs sees it within a second
or two. Whoever may read and write the hub's state folder may do all this.
"""

import argparse
import contextlib
import getpass
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet_smi.cli.access_lists import print_json, print_tokens, print_users
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.hub.tokens import TokenStore
    from fleet_smi.hub.users import UserStore

_JOIN_DAYS = "7d"


def add_parsers(actions: Any) -> None:
    """The commands, each with its flags."""
    _add_token_parsers(actions.add_parser("token", help="tokens for programs, nodes and people"))
    _add_user_parsers(actions.add_parser("user", help="people who log in with a password"))
    join = actions.add_parser("join-command", help="print the line to paste on a new node")
    join.add_argument("--url", help="where nodes reach the hub (default: this machine's name)")
    _add_limits(join, expires=_JOIN_DAYS)
    _add_state(join)
    join.set_defaults(work=_join_command)


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    # Who is let in may be said before the hub's first start; all else is about a hub's state.
    if args.work not in (_add_token, _add_user, _join_command):
        _require_state(args)
    args.work(args)
    return 0


def _require_state(args: argparse.Namespace) -> None:
    from fleet_smi.hub.database import DATABASE_FILE

    folder = Path(_settings(args).hub.state)
    if not (folder / DATABASE_FILE).exists():
        raise UsageError(f"there is no hub's state in {folder}: name its folder with --state")


def _add_token_parsers(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(metavar="DEED", required=True)
    add = deeds.add_parser("add", help="make a token; it is shown this once")
    add.add_argument("--role", choices=("viewer", "admin", "join"), required=True)
    add.add_argument("--note", default="", help="whose it is, or what for")
    _add_limits(add, expires=None)
    listed = deeds.add_parser("list", help="every token that is good, and when it was used")
    listed.add_argument("--all", action="store_true", help="also those that no longer are")
    listed.add_argument("--json", action="store_true", help="as JSON")
    revoke = deeds.add_parser("revoke", help="end tokens: by their ids, or a node's by the node's")
    revoke.add_argument("which", nargs="+", metavar="ID")
    for deed, work in ((add, _add_token), (listed, _list_tokens), (revoke, _revoke_tokens)):
        _add_state(deed)
        deed.set_defaults(work=work)


def _add_user_parsers(parser: argparse.ArgumentParser) -> None:
    deeds = parser.add_subparsers(metavar="DEED", required=True)
    add = deeds.add_parser("add", help="let somebody log in; asks for the password")
    add.add_argument("--role", choices=("viewer", "admin"), default="viewer")
    listed = deeds.add_parser("list", help="everybody who can log in")
    listed.add_argument("--json", action="store_true", help="as JSON")
    remove = deeds.add_parser("remove", help="end somebody's access, sessions included")
    password = deeds.add_parser("password", help="change it; ends sessions made with the old one")
    for deed in (add, remove, password):
        deed.add_argument("name")
    for deed, work in (
        (add, _add_user),
        (listed, _list_users),
        (remove, _remove_user),
        (password, _set_password),
    ):
        _add_state(deed)
        deed.set_defaults(work=work)


def _add_limits(parser: argparse.ArgumentParser, expires: str | None) -> None:
    told = "never" if expires is None else expires
    parser.add_argument(
        "--expires", metavar="TIME", default=expires, help=f"good for so long, like 7d ({told})"
    )
    parser.add_argument("--uses", type=int, metavar="N", help="how many nodes may join with it")


def _add_state(parser: argparse.ArgumentParser) -> None:
    # The hub's own parser may have it too: not given here must not undo it there.
    parser.add_argument(
        "--state", metavar="DIR", default=argparse.SUPPRESS, help="the hub's state folder"
    )


def _add_token(args: argparse.Namespace) -> None:
    with _tokens(args) as tokens:
        limits = {"for_seconds": _seconds(args.expires), "uses": args.uses}
        issued = tokens.add(args.role, args.note, **limits)
    _remark(f"token {issued.id}, shown this once; only its hash is kept:")
    print(issued.secret)


def _list_tokens(args: argparse.Namespace) -> None:
    now = time.time()
    with _tokens(args) as tokens:
        listed = [each for each in tokens.list_all() if args.all or not each.invalid_reason(now)]
    if args.json:
        print_json({"tokens": listed})
    else:
        print_tokens(listed, now)


def _revoke_tokens(args: argparse.Namespace) -> None:
    with _tokens(args) as tokens:
        missed = [which for which in args.which if not tokens.revoke(which)]
    if missed:
        raise UsageError(
            f"no good token or node has the id {', '.join(missed)}: "
            "`fleet-smi hub token list` tells which there are"
        )


def _add_user(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.add(args.name, _password(), args.role)
    _remark(f"{args.name} may sign in now, as {args.role}")


def _list_users(args: argparse.Namespace) -> None:
    with _users(args) as users:
        listed = users.list_all()
    if args.json:
        print_json({"users": listed})
    else:
        print_users(listed, time.time())


def _remove_user(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.remove(args.name)
    _remark(f"{args.name} may no longer sign in")


def _set_password(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.set_password(args.name, _password())
    _remark(f"{args.name} has a new password; sessions with the old one are over")


def _join_command(args: argparse.Namespace) -> None:
    from fleet_smi.hub.state_folder import read_running_hub
    from fleet_smi.server.tls import join_command, read_fingerprint

    settings = _settings(args)
    folder = Path(settings.hub.state)
    running = read_running_hub(folder)
    made = None if settings.hub.tls_cert else read_fingerprint(folder)
    url = args.url or (running.url if running else _own_url(settings, made))
    with _tokens(args) as tokens:
        limits = {"for_seconds": _seconds(args.expires), "uses": args.uses}
        issued = tokens.add("join", "join-command", **limits)
    _remark(f"paste this on a node; token {issued.id}, good for {args.expires}:")
    print(join_command(url, issued.secret, made if url.startswith("https:") else None))


def _own_url(settings: "Settings", made: str | None) -> str:
    """Where the hub will listen by its settings, while none runs."""
    from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback

    host = settings.hub.listen.host
    if is_loopback(host):
        _remark("the hub's settings let it listen on this machine alone: set hub.listen, or --url")
    if host in WILDCARDS or is_loopback(host):
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    secure = made is not None or settings.hub.tls_cert is not None
    return f"{'https' if secure else 'http'}://{shown}:{settings.hub.listen.port}"


@contextlib.contextmanager
def _tokens(args: argparse.Namespace) -> Iterator["TokenStore"]:
    from fleet_smi.hub.database import open_database
    from fleet_smi.hub.tokens import TokenStore

    with contextlib.ExitStack() as stack:
        engine = open_database(Path(_settings(args).hub.state))
        stack.callback(engine.dispose)
        yield TokenStore(engine)


@contextlib.contextmanager
def _users(args: argparse.Namespace) -> Iterator["UserStore"]:
    from fleet_smi.hub.database import open_database
    from fleet_smi.hub.users import UserStore

    with contextlib.ExitStack() as stack:
        engine = open_database(Path(_settings(args).hub.state))
        stack.callback(engine.dispose)
        yield UserStore(engine)


def _settings(args: argparse.Namespace) -> "Settings":
    from fleet_smi.config import load

    return load(flags={"hub.state": getattr(args, "state", None)})


def _seconds(written: str | None) -> float | None:
    from fleet_smi.model.units import parse_duration

    return None if written is None else parse_duration(written)


def _password() -> str:
    """Asked for twice where somebody types it; else the first line of the input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise UsageError("the two are not the same: nothing is changed")
    return password


def _remark(words: str) -> None:
    print(f"fleet-smi: {words}", file=sys.stderr)
