"""The program of the hub's install script: install fleet-smi, join, and start the agent.

It runs by itself on a new node, from the files that the script contains.
"""

import argparse
import errno
import getpass
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress

from fleet_smi.node.bindings import agent_installer
from fleet_smi.node.bindings.agent_installer import HubFiles
from fleet_smi.node.bindings.wheel_tags import (
    InstallError,
    Wheel,
    choose_wheels,
    describe_python,
    parse_wheels,
)

_SCOPE_NAMES = {
    "system": "a system service",
    "user": "your user's service",
    "background": "a background process",
}
_SCOPE_FLAGS = {"system": (), "user": ("--user",), "background": ("--background",)}


def main() -> int:
    """Run it; print what was done as one line, or why not as one line on stderr."""
    # Only for this program: fleet-smi itself is imported from its venv.
    os.environ.pop("PYTHONPATH", None)
    args = _parser().parse_args()
    with open(args.wheels, encoding="utf-8") as file:
        wheels = parse_wheels(file.read())
    try:
        if args.fits:
            return 1 if choose_wheels(wheels)[1] else 0
        print(_install(args, wheels))
    except InstallError as error:
        return _fail(str(error))
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space left" if is_full else error.strerror
        return _fail(f"cannot write {error.filename or 'a file'}: {reason}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="install", allow_abbrev=False)
    add = parser.add_argument
    add("url", metavar="URL", help="the hub, as this machine reaches it")
    add("--fingerprint", metavar="sha256:…", help="accept only this certificate of the hub")
    add("--insecure-http", action="store_true", help="send the token unencrypted")
    add("--dry-run", action="store_true", help="say what would be done, and change nothing")
    add("--wheels", required=True, help=argparse.SUPPRESS)
    add("--fits", action="store_true", help=argparse.SUPPRESS)
    return parser


def _install(args: argparse.Namespace, wheels: Sequence[Wheel]) -> str:
    prefix, scope = agent_installer.default_prefix(), find_scope()
    files = HubFiles(args.url, args.fingerprint, None if args.dry_run else _read_token())
    if not args.insecure_http:
        files.require_encryption()
    if os.geteuid() != 0:
        agent_installer.require_own_disk(os.path.expanduser("~"))
    if args.dry_run:
        return _describe(prefix, scope, files, wheels)
    _say(f"installing fleet-smi from {args.url}, with {describe_python()}")
    folder = agent_installer.install(prefix, wheels, files)
    before = agent_installer.switch(prefix, folder)
    _say(f"joining {args.url}, as {_SCOPE_NAMES[scope]}")
    try:
        outcome = _start_service(args, scope, prefix, files)
    except InstallError:
        if before is not None:
            agent_installer.switch(prefix, before)
        raise
    agent_installer.remove_others(prefix, folder, before)
    _link_commands(prefix)
    version = os.path.basename(folder).rpartition("-")[0]
    outcome = f"{outcome} as {platform.node()}"
    return f"{outcome}: {_SCOPE_NAMES[scope]}, fleet-smi {version}, {describe_python()}"


def find_scope() -> str:
    """How a service is started here: by systemd, by that of this user, or in the background."""
    if os.geteuid() == 0:
        return "system" if os.path.isdir("/run/systemd/system") else "background"
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    if not os.path.isdir(f"{runtime}/systemd") or not _may_linger():
        return "background"
    os.environ["XDG_RUNTIME_DIR"] = runtime  # for systemctl; a session of `su` has none
    return "user"


def _may_linger() -> bool:
    """Whether services of this user go on after the logout; turn that on where it is allowed."""
    with suppress(InstallError, OSError):
        agent_installer.run(["loginctl", "enable-linger"])
        return True
    return os.path.exists(f"/var/lib/systemd/linger/{getpass.getuser()}")


def _describe(prefix: str, scope: str, files: HubFiles, wheels: Sequence[Wheel]) -> str:
    chosen, missing = choose_wheels(wheels)
    files.fetch("/healthz")
    agent_installer.require_space(os.path.dirname(prefix), create=False)
    installed = os.path.exists(os.path.join(prefix, agent_installer.CURRENT))
    verb = "would update what is there to" if installed else "would install"
    lacks = f"; {' and '.join(missing)} only from a package index" if missing else ""
    where = f"{prefix}, and start it as {_SCOPE_NAMES[scope]}"
    return f"{verb} fleet-smi {chosen[0].version} in {where}, {describe_python()}{lacks}"


def _start_service(args: argparse.Namespace, scope: str, prefix: str, files: HubFiles) -> str:
    """Let the installed program join and start; return what it says first."""
    program = os.path.join(prefix, agent_installer.CURRENT, "bin", "fleet-smi")
    pin = ("--fingerprint", args.fingerprint) if args.fingerprint else ()
    join = ("--to", args.url, *pin, "--join-file", "-", "--join-first")
    command = [program, "service", "install", "agent", *_SCOPE_FLAGS[scope], *join]
    output = agent_installer.run(command, f"{files.token}\n")
    first, *others = output.splitlines() or ["installed"]
    for line in others:
        _say(line)
    return first


def _link_commands(prefix: str) -> None:
    """Offer the commands to users, where their folder has none of that name."""
    is_root = os.geteuid() == 0
    folder = "/usr/local/bin" if is_root else os.path.expanduser("~/.local/bin")
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        for name in agent_installer.COMMANDS:
            path = os.path.join(folder, name)
            if not os.path.lexists(path):
                os.symlink(os.path.join(prefix, agent_installer.CURRENT, "bin", name), path)


def _read_token() -> str:
    """The join token: one line of standard input, or typed without being shown."""
    is_typed = sys.stdin.isatty()
    token = getpass.getpass("Join token: ") if is_typed else sys.stdin.readline(4096)
    if not token.strip():
        raise InstallError(
            "no join token on standard input: use the line that `fleet-smi hub join-command` prints"
        )
    return token.strip()


def _say(text: str) -> None:
    print(f"fleet-smi: {text}", file=sys.stderr, flush=True)


def _fail(text: str) -> int:
    _say(" ".join(text.split()))
    return 1


if __name__ == "__main__":
    sys.exit(main())
