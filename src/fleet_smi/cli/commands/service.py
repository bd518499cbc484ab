"""`fleet-smi service`: install the agent or the hub as a hardened systemd service."""

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

HELP = "install the agent or the hub as a hardened systemd service under its own user"
EXAMPLES = """\
  fleet-smi service install agent --dry-run     show the files and commands
  sudo fleet-smi service install agent --to https://hub:7070 --join TOKEN
  sudo fleet-smi service install hub
  sudo fleet-smi service uninstall agent
"""
_UNIT_DIR = "/etc/systemd/system"
_GROUPS = ("video", "render")
_USER_NAME = r"[a-z_][a-z0-9_-]{0,31}"
_SEARCHABLE = 0o001  # on a folder, execute permission is permission to enter it


class WriteFile(NamedTuple):
    """A file to write."""

    path: str
    text: str
    mode: int


class RemoveFile(NamedTuple):
    """A file to remove, if it exists."""

    path: str


class RunCommand(NamedTuple):
    """A program to run."""

    command: Sequence[str]


Step = WriteFile | RemoveFile | RunCommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action, the role and its options."""
    add = parser.add_argument
    add("action", choices=("install", "uninstall"), help="what to do")
    add("role", choices=("agent", "hub"), help="which service")
    add("--to", metavar="URL", help="agent: the hub to report to")
    add("--join", metavar="TOKEN", help="agent: the hub's join token")
    add("--fingerprint", metavar="SHA256", help="agent: the hub's certificate fingerprint")
    add("--user-name", metavar="USER", default="fleet-smi", help="user it runs as (fleet-smi)")
    add("--dry-run", action="store_true", help="print the files and commands, change nothing")


def run(args: argparse.Namespace) -> int:
    """Run the steps, or print them."""
    name = unit_name(args.role)
    steps = list(install_steps(args) if args.action == "install" else uninstall_steps(args.role))
    if args.dry_run:
        sys.stdout.write("".join(map(_describe, steps)))
        return 0
    _require_root_and_systemd()
    if args.action == "install":
        require_reachable(_program_files())
    run_steps(steps, systemd.run)
    if args.action == "install":
        print(f"{name} is running; `journalctl -u {name}` shows its log")
    else:
        print(f"{name} is removed; its data in {STATE_DIR} is still there")
    return 0


def run_steps(
    steps: Sequence[Step], run_command: Callable[[Sequence[str]], None], root: Path = Path("/")
) -> None:
    """Run the steps in order, with files below `root`; stop at the first failure."""
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
    """Yield the steps that install and start the service."""
    settings = _service_settings(args)
    if not _has_user(args.user_name):
        yield RunCommand(_useradd_command(args.user_name))
    variables = _variables(args)
    if variables:
        yield WriteFile(env_file_path(args.role), render_env_file(variables), 0o600)
    name = unit_name(args.role)
    yield WriteFile(f"{_UNIT_DIR}/{name}", render_unit(_service(args, settings)), 0o644)
    yield RunCommand(("systemctl", "daemon-reload"))
    yield RunCommand(("systemctl", "enable", name))
    # Not start: installing again has to replace the service that runs.
    yield RunCommand(("systemctl", "restart", name))


def uninstall_steps(role: str) -> Iterator[Step]:
    """Yield the steps that stop and remove the service; its state is left alone."""
    name = unit_name(role)
    # First, while systemd still has the unit file that says how to stop it.
    yield RunCommand(("systemctl", "disable", "--now", name))
    yield RemoveFile(f"{_UNIT_DIR}/{name}")
    yield RemoveFile(env_file_path(role))
    yield RunCommand(("systemctl", "daemon-reload"))


def _service_settings(args: argparse.Namespace) -> SettingsLayer:
    """Return the settings the service will see: the system's or given file, and these flags."""
    flags = {"agent.to": args.to, "agent.join": args.join, "agent.fingerprint": args.fingerprint}
    if args.role == "hub" and _variables(args):
        raise UsageError("--to, --join and --fingerprint are for an agent: leave them out")
    if args.user_name == "root" or not re.fullmatch(_USER_NAME, args.user_name):
        raise UsageError("--user-name: give a valid user name other than root")
    # Not os.environ: the service does not run with the variables of this shell.
    settings = config.resolve({"FLEET_SMI_CONFIG": args.config} if args.config else {}, flags)
    settings.raise_if_invalid()
    outlets = ("agent.to", "agent.serve", "agent.drop")
    if args.role == "agent" and all(settings.values[outlet].value is None for outlet in outlets):
        raise UsageError(
            "the agent has no destination: give --to URL, or set agent.to, agent.serve "
            f"or agent.drop in {args.config or SYSTEM_SETTINGS_FILE}"
        )
    return settings


def _service(args: argparse.Namespace, settings: SettingsLayer) -> ServiceUnit:
    state = settings.values[f"{args.role}.state"]
    own_state = None if state.origin == DEFAULT_ORIGIN else state.value
    drop = settings.values["agent.drop"].value if args.role == "agent" else None
    config_flag = ("--config", args.config) if args.config else ()
    return ServiceUnit(
        role=args.role,
        command=(*_program(), args.role, *config_flag),
        user=args.user_name,
        # A unit that names a group that does not exist fails to start.
        groups=tuple(group for group in _GROUPS if _has_group(group)),
        state_dir=None if own_state else f"{STATE_DIR}/{args.role}",
        writable_paths=tuple(path for path in (own_state, drop) if path),
    )


def _variables(args: argparse.Namespace) -> dict[str, str]:
    """Return the flags as variables for the environment file.

    They may hold a token, so they must not be in the unit file, which every user can read.
    """
    flags = {"TO": args.to, "JOIN": args.join, "FINGERPRINT": args.fingerprint}
    return {f"FLEET_SMI_AGENT_{key}": value for key, value in flags.items() if value is not None}


def _program() -> tuple[str, ...]:
    """Return the command line of this installation, by absolute path."""
    script = Path(sys.executable).with_name("fleet-smi")
    return (str(script),) if script.is_file() else (sys.executable, "-m", "fleet_smi")


def _program_files() -> tuple[str, ...]:
    """Return the files the service's user must reach: interpreter, package and command."""
    return (str(Path(sys.executable).resolve()), fleet_smi.__file__, _program()[0])


def require_reachable(files: Sequence[str]) -> None:
    """Raise `Unmet` if a file is in a folder that other users may not enter."""
    for file in files:
        for folder in Path(file).parents:
            if not folder.stat().st_mode & _SEARCHABLE:
                raise Unmet(
                    f"the service cannot run {file}: {folder} is closed to other users; "
                    "install fleet-smi where all can read it, like a venv in /opt/fleet-smi"
                )


def _require_root_and_systemd() -> None:
    if os.geteuid() != 0:
        raise Unmet("this needs root: run it with sudo, or preview it with --dry-run")
    if not systemd.is_running():
        raise Unmet(
            "this machine does not run systemd: start `fleet-smi agent` or `fleet-smi hub` from "
            "your init system; --dry-run shows the systemd unit"
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


def _useradd_command(name: str) -> tuple[str, ...]:
    nologin = "/usr/sbin/nologin"
    home = ("--home-dir", STATE_DIR, "--no-create-home")
    return ("useradd", "--system", "--user-group", *home, "--shell", nologin, name)


def _describe(step: Step) -> str:
    """Return a step as `--dry-run` prints it."""
    if isinstance(step, RunCommand):
        return f"# run\n{shlex.join(step.command)}\n\n"
    if isinstance(step, RemoveFile):
        return f"# remove {step.path}\n\n"
    # A file that only root may read holds a token: a preview is often pasted elsewhere.
    secret = step.mode & 0o077 == 0
    text = "(holds a token: not shown)\n" if secret else step.text
    return f"# write {step.path} (mode {step.mode:04o})\n{text}\n"
