"""`fleet-smi hub token|user|join-command`: manage access to the hub.

They change the hub's database directly, whether or not the hub runs; a running hub sees the
change within a second or two. Write access to the state folder is all the permission needed;
root becomes the owner of that folder first.
"""

import argparse
import getpass
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fleet_smi.cli import wheelhouse
from fleet_smi.cli.access_lists import print_json, print_tokens, print_users
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.hub.tokens import TokenStore
    from fleet_smi.hub.users import UserStore

_Store = TypeVar("_Store")
_JOIN_LIFETIME, _JOIN_USES = "24h", 100
_MODULES = (
    "fleet_smi.cli.join_address",
    "fleet_smi.hub.tokens",
    "fleet_smi.hub.users",
    "fleet_smi.server.install_script",
    "fleet_smi.wire.json",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
_CLUSTER_MODULES = (
    "fleet_smi.hub.cluster.state_database",
    "sqlalchemy.dialects.postgresql.psycopg",
)


def add_parsers(actions: Any) -> None:
    """Add the subcommands and their flags."""
    _add_token_parsers(actions.add_parser("token", help="tokens for programs, nodes and users"))
    _add_user_parsers(actions.add_parser("user", help="users who log in with a password"))
    join = actions.add_parser("join-command", help="print the command to run on a new node")
    join.add_argument(
        "--url", help="the hub's URL for nodes (default: hub.public_url, else this machine's name)"
    )
    join.add_argument(
        "--installed", action="store_true", help="for nodes that have fleet-smi: only the agent"
    )
    join.add_argument(
        "--service", action="store_true", help="the same as a service that starts with the machine"
    )
    _add_limits(join, _JOIN_LIFETIME, _JOIN_USES)
    _add_state(join)
    join.set_defaults(handler=_join_command)
    wheelhouse.add_parser(actions, _add_state)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand, as the user whom the state folder belongs to."""
    from fleet_smi.cli.hub_state import has_run_hub, require_own_hub
    from fleet_smi.config import load

    # Once, and before: another user may not be able to read the files of this one.
    state = getattr(args, "state", None)
    args.settings = load(flags={"hub.state": state})
    args.secret = _read_secret(getattr(args, "secret_file", None))
    folder = Path(args.settings.hub.state)
    require_own_hub(folder, args.action, is_named=state is not None)
    cluster_modules = _CLUSTER_MODULES if args.settings.hub.cluster else ()
    _become_owner(folder, (*_MODULES, *cluster_modules))
    # Access may be granted before the hub's first start; the others need an existing state.
    if args.handler not in _BEFORE_FIRST_START:
        _require_state(args)
    elif not has_run_hub(folder):
        _notice(f"no hub has run in {folder} yet: this counts for one that will")
    args.handler(args)
    return 0


def _become_owner(folder: Path, modules: Sequence[str]) -> None:
    from importlib import import_module

    from fleet_smi.hub.state_folder import become_owner

    # Before: another user may not be able to read the folder that Python is installed in.
    for module in modules:
        import_module(module)
    become_owner(folder)


def _require_state(args: argparse.Namespace) -> None:
    from fleet_smi.hub.database import DATABASE_FILE

    folder = Path(args.settings.hub.state)
    # That of a cluster is in PostgreSQL.
    if not (args.settings.hub.cluster or (folder / DATABASE_FILE).exists()):
        raise UsageError(f"no hub state in {folder}: give the hub's folder with --state")


def _add_token_parsers(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a token; it is shown only once")
    add.add_argument("--role", choices=("viewer", "admin", "join"), required=True)
    add.add_argument("--note", default="", help="owner or purpose of the token")
    add.add_argument("--person", metavar="NAME", help="a personal token, which acts as this user")
    add.add_argument(
        "--secret-file", metavar="FILE", help="take the secret in FILE instead of a new one"
    )
    _add_limits(add)
    listing = actions.add_parser("list", help="list valid tokens and when each was last used")
    listing.add_argument("--all", action="store_true", help="also expired and revoked ones")
    listing.add_argument("--json", action="store_true", help="as JSON")
    revoke = actions.add_parser("revoke", help="revoke tokens by their id, or by a node's id")
    revoke.add_argument("ids", nargs="+", metavar="ID")
    for action, handler in ((add, _add_token), (listing, _list_tokens), (revoke, _revoke_tokens)):
        _add_state(action)
        action.set_defaults(handler=handler)


def _add_user_parsers(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add = actions.add_parser("add", help="add a user; asks for the password")
    add.add_argument("--role", choices=("viewer", "admin"), default="viewer")
    listing = actions.add_parser("list", help="list the users")
    listing.add_argument("--json", action="store_true", help="as JSON")
    remove = actions.add_parser("remove", help="remove a user and end their sessions")
    password = actions.add_parser("password", help="change a password; ends the user's sessions")
    for action in (add, remove, password):
        action.add_argument("name")
    for action, handler in (
        (add, _add_user),
        (listing, _list_users),
        (remove, _remove_user),
        (password, _set_password),
    ):
        _add_state(action)
        action.set_defaults(handler=handler)


def _add_limits(
    parser: argparse.ArgumentParser, expires: str | None = None, uses: int | None = None
) -> None:
    default = f"{_JOIN_LIFETIME}" if expires else f"no limit, {_JOIN_LIFETIME} with --role join"
    parser.add_argument(
        "--expires", metavar="TIME", default=expires, help=f"lifetime, like 7d ({default})"
    )
    parser.add_argument(
        "--uses",
        type=int,
        metavar="N",
        default=uses,
        help=f"how many nodes may join with it ({_JOIN_USES})",
    )


def _add_state(parser: argparse.ArgumentParser) -> None:
    # No default: it would overwrite a --state given before the subcommand.
    parser.add_argument(
        "--state", metavar="DIR", default=argparse.SUPPRESS, help="the hub's state folder"
    )


def _add_token(args: argparse.Namespace) -> None:
    secret = args.secret
    with _tokens(args) as tokens:
        known = None if secret is None else tokens.find(secret)
        if known is not None:
            # No error: what sets up a hub does so at each of its starts.
            state = known.invalid_reason(time.time()) or "is valid"
            _notice(f"nothing changed: there is a token {known.id} with this secret, which {state}")
            return
        issued = tokens.add(
            args.role,
            args.note,
            lifetime_seconds=_seconds(args.expires),
            max_uses=args.uses,
            person=args.person,
            secret=secret,
        )
    if secret is not None:
        _notice(f"token {issued.id} has the given secret")
        return
    # On stderr, so that `$(fleet-smi hub token add …)` captures the secret alone.
    limits = f", {_join_limits(args)}" if args.role == "join" else ""
    _notice(f"token {issued.id}, shown only once{limits}; the hub stores its hash:")
    print(issued.secret)


def _join_limits(args: argparse.Namespace) -> str:
    from fleet_smi.hub.tokens import JOIN_LIFETIME_SECONDS, JOIN_MAX_USES
    from fleet_smi.server.join_line import describe_limits

    lifetime_seconds = _seconds(args.expires) or JOIN_LIFETIME_SECONDS
    return describe_limits(lifetime_seconds, args.uses or JOIN_MAX_USES)


def _list_tokens(args: argparse.Namespace) -> None:
    now = time.time()
    with _tokens(args) as tokens:
        shown = [token for token in tokens.list_all() if args.all or not token.invalid_reason(now)]
    if args.json:
        print_json({"tokens": shown})
    else:
        print_tokens(shown, now)


def _revoke_tokens(args: argparse.Namespace) -> None:
    with _tokens(args) as tokens:
        unknown = [token_id for token_id in args.ids if not tokens.revoke(token_id)]
    if unknown:
        raise UsageError(
            f"no valid token or node has the id {', '.join(unknown)}: "
            "see `fleet-smi hub token list`"
        )


def _add_user(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.add(args.name, _password(), args.role)
    _notice(f"{args.name} can now log in, as {args.role}")


def _list_users(args: argparse.Namespace) -> None:
    with _users(args) as users:
        known_users = users.list_all()
    if args.json:
        print_json({"users": known_users})
    else:
        print_users(known_users, time.time())


def _remove_user(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.remove(args.name)
    _notice(f"{args.name} can no longer log in")


def _set_password(args: argparse.Namespace) -> None:
    with _users(args) as users:
        users.set_password(args.name, _password())
    _notice(f"{args.name} has a new password; their sessions and personal tokens have ended")


def _join_command(args: argparse.Namespace) -> None:
    from fleet_smi.cli.join_address import join_address
    from fleet_smi.model.units import parse_duration
    from fleet_smi.server.install_script import script_checksum
    from fleet_smi.server.join_line import install_command, join_command

    address = join_address(args.settings, args.url)
    lifetime_seconds, uses = parse_duration(args.expires), args.uses
    with _tokens(args) as tokens:
        issued = tokens.add(
            "join", "join-command", lifetime_seconds=lifetime_seconds, max_uses=uses
        )
    is_local = args.url is None and address.is_loopback
    where = "this machine, the only one that reaches the hub" if is_local else "each node"
    _notice(f"run this line on {where}; its token {issued.id} is {_join_limits(args)}:")
    is_installed = args.installed or args.service
    sha256 = None if is_installed else script_checksum(wheelhouse.open_wheelhouse(args))
    if sha256 is None:
        pin = address.fingerprint
        print(join_command(address.url, issued.secret, pin, service=args.service))
    else:
        print(install_command(address.url, issued.secret, sha256, address.fingerprint))
    if is_local:
        _notice('for others: set hub.listen, like ":7070", restart the hub, and run this again')


def _tokens(args: argparse.Namespace) -> AbstractContextManager["TokenStore"]:
    from fleet_smi.hub.tokens import TokenStore

    return _open_store(args, TokenStore)


def _users(args: argparse.Namespace) -> AbstractContextManager["UserStore"]:
    from fleet_smi.hub.users import UserStore

    return _open_store(args, UserStore)


@contextmanager
def _open_store(args: argparse.Namespace, create: Callable[[Any], _Store]) -> Iterator[_Store]:
    """Open the hub's database, and what `create` makes of it, until the end of the block."""
    from fleet_smi.hub.cluster.state_database import open_state

    engine = open_state(args.settings.hub)
    try:
        yield create(engine)
    finally:
        engine.dispose()


def _seconds(text: str | None) -> float | None:
    from fleet_smi.model.units import parse_duration

    return None if text is None else parse_duration(text)


def _read_secret(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"--secret-file {path}: {reason}") from None


def _password() -> str:
    """Prompt for a password twice; without a terminal, read one line from stdin."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise UsageError("the passwords differ: nothing was changed")
    return password


def _notice(text: str) -> None:
    print(f"fleet-smi: {text}", file=sys.stderr)


_BEFORE_FIRST_START = (_add_token, _add_user, _join_command, wheelhouse.run_wheelhouse)
"""Actions that work before a hub has run; the others need its state."""
