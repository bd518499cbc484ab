"""`fleet-smi service`: the agent or the hub as a service that systemd keeps running."""

import argparse
import grp
import os
import pwd
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import fleet_smi
from fleet_smi import config
from fleet_smi.cli.atomic_write import write_file
from fleet_smi.cli.systemd_units import (
    STATE_DIR,
    ServiceUnit,
    env_file_path,
    render_env_file,
    render_unit,
    unit_name,
)
from fleet_smi.config.layers import DEFAULT_ORIGIN, SettingsLayer
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.node.bindings import systemd
from fleet_smi.paths import SYSTEM_SETTINGS_FILE

HELP = "run the agent or the hub as a service: hardened, under a user of its own (systemd)"
EXAMPLES = """\
  fleet-smi service install agent --dry-run     what would be written and run
  sudo fleet-smi service install agent --to https://hub:7070 --join TOKEN
  sudo fleet-smi service install hub
  sudo fleet-smi service uninstall agent
"""
_UNITS = "/etc/systemd/system"
_GROUPS = ("video", "render")
_USER_NAME = r"[a-z_][a-z0-9_-]{0,31}"
_SEARCHABLE = 0o001


class WriteFile(NamedTuple):
    """A file to write."""

    path: str
    text: str
    mode: int


class RemoveFile(NamedTuple):
    """A file to remove, if it is there."""

    path: str


class RunCommand(NamedTuple):
    """A program to run."""

    command: Sequence[str]


Step = WriteFile | RemoveFile | RunCommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to install, and for whom."""
    add = parser.add_argument
    add("action", choices=("install", "uninstall"), help="what to do")
    add("role", choices=("agent", "hub"), help="which service")
    add("--to", metavar="URL", help="agent: the hub to report to")
    add("--join", metavar="TOKEN", help="agent: the token to join that hub with")
    add("--fingerprint", metavar="SHA256", help="agent: that hub's certificate")
    add("--user-name", metavar="USER", default="fleet-smi", help="whom it runs as (fleet-smi)")
    add("--dry-run", action="store_true", help="print what would be done and do nothing")


def run(args: argparse.Namespace) -> int:
    """Do the steps, or print them."""
    name = unit_name(args.role)
    steps = list(install_steps(args) if args.action == "install" else uninstall_steps(args.role))
    if args.dry_run:
        sys.stdout.write("".join(map(_told, steps)))
        return 0
    _refuse_unable()
    if args.action == "install":
        require_reachable(_program_files())
    run_steps(steps, systemd.run)
    if args.action == "install":
        print(f"{name} runs; `journalctl -u {name}` shows what it says")
    else:
        print(f"{name} is gone; what it kept in {STATE_DIR} is still there")
    return 0


def run_steps(
    steps: Sequence[Step], run_command: Callable[[Sequence[str]], None], root: Path = Path("/")
) -> None:
    """Do each step in turn, with files below `root`; the first that fails ends it."""
    for step in steps:
        if isinstance(step, RunCommand):
            run_command(step.command)
            continue
        path = root / step.path.removeprefix("/")
        if isinstance(step, WriteFile):
            write_file(path, step.text, step.mode, replace=True)
        else:
            path.unlink(missing_ok=True)


def install_steps(args: argparse.Namespace) -> Iterator[Step]:
    """All that makes a service of it, in order."""
    read = _settings_of_the_service(args)
    if not _has_user(args.user_name):
        yield RunCommand(_new_user(args.user_name))
    variables = _variables(args)
    if variables:
        yield WriteFile(env_file_path(args.role), render_env_file(variables), 0o600)
    name = unit_name(args.role)
    yield WriteFile(f"{_UNITS}/{name}", render_unit(_service(args, read)), 0o644)
    yield RunCommand(("systemctl", "daemon-reload"))
    yield RunCommand(("systemctl", "enable", name))
    yield RunCommand(("systemctl", "restart", name))


def uninstall_steps(role: str) -> Iterator[Step]:
    """All that takes it away again, in order."""
    name = unit_name(role)
    yield RunCommand(("systemctl", "disable", "--now", name))
    yield RemoveFile(f"{_UNITS}/{name}")
    yield RemoveFile(env_file_path(role))
    yield RunCommand(("systemctl", "daemon-reload"))


def _settings_of_the_service(args: argparse.Namespace) -> SettingsLayer:
    """What the service will find: the system's file or the named one, and the flags given here."""
    told = {"agent.to": args.to, "agent.join": args.join, "agent.fingerprint": args.fingerprint}
    if args.role == "hub" and _variables(args):
        raise UsageError("--to, --join and --fingerprint are for an agent: leave them out")
    if args.user_name == "root" or not re.fullmatch(_USER_NAME, args.user_name):
        raise UsageError("--user-name must name a user who is not root: the service needs no more")
    read = config.resolve({"FLEET_SMI_CONFIG": args.config} if args.config else {}, told)
    read.raise_if_invalid()
    outlets = ("agent.to", "agent.serve", "agent.drop")
    if args.role == "agent" and all(read.values[outlet].value is None for outlet in outlets):
        raise UsageError(
            "nothing says where the agent reports: give --to URL, or set agent.to, agent.serve "
            f"or agent.drop in {args.config or SYSTEM_SETTINGS_FILE}"
        )
    return read


def _service(args: argparse.Namespace, read: SettingsLayer) -> ServiceUnit:
    state = read.values[f"{args.role}.state"]
    own_state = None if state.origin == DEFAULT_ORIGIN else state.value
    drop = read.values["agent.drop"].value if args.role == "agent" else None
    named = ("--config", args.config) if args.config else ()
    return ServiceUnit(
        role=args.role,
        command=(*_program(), args.role, *named),
        user=args.user_name,
        groups=tuple(group for group in _GROUPS if _has_group(group)),
        state_dir=None if own_state else f"{STATE_DIR}/{args.role}",
        writable_paths=tuple(path for path in (own_state, drop) if path),
    )


def _variables(args: argparse.Namespace) -> dict[str, str]:
    """What was said by flag, for a file that only root can read: a unit is for all eyes."""
    told = {"TO": args.to, "JOIN": args.join, "FINGERPRINT": args.fingerprint}
    return {f"FLEET_SMI_AGENT_{key}": value for key, value in told.items() if value is not None}


def _program() -> tuple[str, ...]:
    """This very installation, by its whole path."""
    beside = Path(sys.executable).with_name("fleet-smi")
    return (str(beside),) if beside.is_file() else (sys.executable, "-m", "fleet_smi")


def _program_files() -> tuple[str, ...]:
    """What the service's user must be able to reach: the interpreter, the package, the command."""
    return (str(Path(sys.executable).resolve()), fleet_smi.__file__, _program()[0])


def require_reachable(files: Sequence[str]) -> None:
    """Raise `Unmet` where a file is in a folder that others may not enter."""
    for file in files:
        for folder in Path(file).parents:
            if not folder.stat().st_mode & _SEARCHABLE:
                raise Unmet(
                    f"the service could not run {file}, for {folder} is closed to other users: "
                    "install fleet-smi where all can read it, like a venv in /opt/fleet-smi"
                )


def _refuse_unable() -> None:
    if os.geteuid() != 0:
        raise Unmet("a service is installed by root: run it with sudo, or look with --dry-run")
    if not systemd.is_running():
        raise Unmet(
            "systemd does not run this machine: start `fleet-smi agent` or `fleet-smi hub` by "
            "what does, or look with --dry-run at what systemd would be told"
        )


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _new_user(name: str) -> tuple[str, ...]:
    nologin = "/usr/sbin/nologin"
    home = ("--home-dir", STATE_DIR, "--no-create-home")
    return ("useradd", "--system", "--user-group", *home, "--shell", nologin, name)


def _told(step: Step) -> str:
    if isinstance(step, RunCommand):
        return f"# run\n{shlex.join(step.command)}\n\n"
    if isinstance(step, RemoveFile):
        return f"# remove {step.path}\n\n"
    secret = step.mode & 0o077 == 0
    text = "(has the token in it: not shown)\n" if secret else step.text
    return f"# write {step.path} (mode {step.mode:04o})\n{text}\n"
