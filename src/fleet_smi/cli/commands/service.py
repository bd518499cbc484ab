"""`fleet-smi service`: install the agent or the hub as a hardened systemd service."""

import argparse
import grp
import os
import pwd
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fleet_smi import config
from fleet_smi.cli.background_agent import background_agent
from fleet_smi.cli.join_token import add_join_arguments, take_join_token
from fleet_smi.cli.service_join import SYSTEM_STATE, join_hub
from fleet_smi.cli.service_program import own_program, program_files, require_reachable
from fleet_smi.cli.service_scope import SYSTEM, ServiceScope, require_manager, user_scope
from fleet_smi.cli.service_steps import (
    RemoveFile,
    RunCommand,
    Step,
    WriteFile,
    describe_step,
    run_steps,
)
from fleet_smi.cli.systemd_units import (
    STATE_DIR,
    ServiceUnit,
    render_env_file,
    render_unit,
    unit_name,
)
from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.config.layers import DEFAULT_ORIGIN, SettingsLayer
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.extras import require_extra
from fleet_smi.node.bindings import systemd
from fleet_smi.paths import SYSTEM_SETTINGS_FILE

HELP = "install the agent or the hub as a hardened systemd service under its own user"
EXAMPLES = """\
  fleet-smi service install agent --dry-run     show the files and commands
  echo TOKEN | sudo fleet-smi service install agent --to https://hub:7070 --join-file -
  sudo fleet-smi service install hub
  fleet-smi service install agent --user --to https://hub:7070
  sudo fleet-smi service uninstall agent
"""
_DEFAULT_USER = "fleet-smi"
_GROUPS = ("video", "render")
_USER_NAME = r"[a-z_][a-z0-9_-]{0,31}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action, the role and its options."""
    add = parser.add_argument
    add("action", choices=("install", "uninstall"), help="what to do")
    add("role", choices=("agent", "hub"), help="which service")
    add("--to", metavar="URL", help="agent: the hub to report to")
    add_join_arguments(parser, "agent: ")
    add("--fingerprint", metavar="SHA256", help="agent: the hub's certificate fingerprint")
    add("--join-first", action="store_true", help="agent: join now; a refusal installs nothing")
    add("--user", action="store_true", help="for this user, without root")
    add("--background", action="store_true", help="agent: without systemd, started again by cron")
    add("--user-name", metavar="USER", default=_DEFAULT_USER, help="user it runs as (fleet-smi)")
    add("--dry-run", action="store_true", help="print the files and commands, change nothing")


def run(args: argparse.Namespace) -> int:
    """Run the steps, or print them."""
    name = unit_name(args.role)
    scope = user_scope() if args.user or (args.background and os.geteuid() != 0) else SYSTEM
    args.join = take_join_token(args)
    if args.background:
        return _run_background(args, scope)
    if args.action == "install":
        if args.role == "hub":
            require_extra("hub", "a hub")
        steps = list(install_steps(args, scope))
    else:
        steps = list(uninstall_steps(args.role, scope))
    if args.dry_run:
        sys.stdout.write("".join(map(describe_step, steps)))
        return 0
    require_manager(scope)
    is_packaged = scope.has_packaged_unit(name)
    if args.action == "uninstall" and not (is_packaged or Path(scope.unit_path(name)).exists()):
        raise Unmet(f"{name} is not installed")
    if args.action == "install" and not scope.is_user:
        require_reachable(program_files())
    if args.action == "install" and args.join_first:
        print(_join_first(args, scope))
        steps = list(install_steps(args, scope))  # without the token, which has been used
    run_steps(steps, systemd.run)
    if args.action == "install":
        print(f"{name} is running; `{_log_command(name, scope)}` shows its log")
        print("".join(f"{line}\n" for line in _next_steps(args, scope)), end="")
    elif is_packaged:
        print(f"{name} is stopped and disabled; its package and its data are still there")
    else:
        print(f"{name} is removed; its data is still there")
    return 0


def _join_first(args: argparse.Namespace, scope: ServiceScope) -> str:
    """Join while no agent runs; start the one that ran again if that fails."""
    name = unit_name(args.role)
    state, user = _agent_state(args, scope), None if scope.is_user else args.user_name
    if user is not None and not _has_user(user):
        systemd.run(_useradd_command(user))
    with suppress(Unmet):  # it may not be installed
        systemd.run((*scope.systemctl, "stop", name))
    try:
        return _join(args, state, user)
    except Unmet:
        with suppress(Unmet):
            systemd.run((*scope.systemctl, "start", name))
        raise


def _join(args: argparse.Namespace, state: str, user: str | None) -> str:
    if not args.to or not args.join:
        raise UsageError("--join-first needs --to URL and --join-file FILE")
    was_joined = join_hub(own_program(), args.to, args.fingerprint, args.join, state, user)
    args.join = None
    return "already joined" if was_joined else "joined"


def _agent_state(args: argparse.Namespace, scope: ServiceScope) -> str:
    state = config.resolve(_environment(args, scope), {}).values["agent.state"]
    is_default = state.origin == DEFAULT_ORIGIN and os.geteuid() == 0
    return SYSTEM_STATE if is_default else str(state.value)


def _run_background(args: argparse.Namespace, scope: ServiceScope) -> int:
    """Install, or remove, the agent that runs without systemd."""
    if args.role != "agent" or args.dry_run:
        raise UsageError("--background is for an agent, and has no --dry-run")
    state = _agent_state(args, scope)
    agent = background_agent(scope, args.user_name, state)
    if args.action == "uninstall":
        if not agent.is_installed():
            raise Unmet("no agent is installed here to run in the background")
        agent.uninstall()
        print("the agent has ended and is no longer started; its data is still there")
        return 0
    _service_settings(args, scope)  # raises where they are not valid
    if agent.user is not None and not _has_user(agent.user):
        systemd.run(_useradd_command(agent.user))
    was_running = agent.stop()
    try:
        if args.join_first:
            print(_join(args, state, agent.user))
    except Unmet:
        if was_running:
            agent.restart()
        raise
    command = (*own_program(), "agent", *(("--config", args.config) if args.config else ()))
    is_in_cron = agent.install(command, _variables(args), state)
    print(f"the agent runs in the background; its log is {agent.log}")
    if not is_in_cron:
        print(f"there is no cron here: have {agent.script} run when the machine starts")
    return 0


def _next_steps(args: argparse.Namespace, scope: ServiceScope) -> Iterator[str]:
    """Yield what the admin does next."""
    sudo = "" if scope.is_user else "sudo "
    if scope.is_user:
        yield "it ends when you log out, unless you run once: loginctl enable-linger"
    if args.role == "agent":
        return
    values = _service_settings(args, scope).values
    is_proxied = bool(values["hub.trusted_proxies"].value)
    if is_loopback(values["hub.listen"].value.host) and not is_proxied:
        file = args.config or f"{scope.env_folder}/fleet-smi.toml"
        yield f"it listens for this machine only: set hub.listen in {file} and restart it"
    elif values["hub.user_header"].value is None:  # else the proxy says who has access
        yield "next, give somebody access; until then the hub refuses everybody:"
        yield f"  {sudo}fleet-smi hub user add NAME             to log in on its page"
        yield f"  {sudo}fleet-smi hub token add --role viewer   for commands and programs"
    yield f"  {sudo}fleet-smi hub join-command              the line to run on each node"


def install_steps(args: argparse.Namespace, scope: ServiceScope = SYSTEM) -> Iterator[Step]:
    """Yield the steps that install and start the service."""
    settings = _service_settings(args, scope)
    name = unit_name(args.role)
    service = _service(args, settings, scope)
    uses_package = scope.has_packaged_unit(name) and _suits_package(service, args)
    if not scope.is_user and not uses_package and not _has_user(args.user_name):
        yield RunCommand(_useradd_command(args.user_name))
    variables = _variables(args)
    if variables:
        yield WriteFile(scope.env_path(args.role), render_env_file(variables), 0o600)
    if uses_package:
        # One that was written before the package was installed would override the package's.
        yield RemoveFile(scope.unit_path(name))
    else:
        yield WriteFile(scope.unit_path(name), render_unit(service), 0o644)
    yield RunCommand((*scope.systemctl, "daemon-reload"))
    yield RunCommand((*scope.systemctl, "enable", name))
    # Not start: installing again has to replace the service that runs.
    failure = f"{name} is installed but has not started: `{_log_command(name, scope)}` shows why"
    yield RunCommand((*scope.systemctl, "restart", name), failure)


def _log_command(name: str, scope: ServiceScope) -> str:
    return f"journalctl {'--user -u' if scope.is_user else '-u'} {name}"


def uninstall_steps(role: str, scope: ServiceScope = SYSTEM) -> Iterator[Step]:
    """Yield the steps that stop and remove the service; its state is left alone."""
    name = unit_name(role)
    # First, while systemd still has the unit file that says how to stop it.
    yield RunCommand((*scope.systemctl, "disable", "--now", name))
    yield RemoveFile(scope.unit_path(name))
    yield RemoveFile(scope.env_path(role))
    yield RunCommand((*scope.systemctl, "daemon-reload"))


def _service_settings(args: argparse.Namespace, scope: ServiceScope) -> SettingsLayer:
    """Return the settings the service will see: the system's or given file, and these flags."""
    flags = {"agent.to": args.to, "agent.join": args.join, "agent.fingerprint": args.fingerprint}
    if args.role == "hub" and _variables(args):
        raise UsageError("--to, --join-file and --fingerprint are for an agent: leave them out")
    if args.user_name == "root" or not re.fullmatch(_USER_NAME, args.user_name):
        raise UsageError("--user-name: give a valid user name other than root")
    settings = config.resolve(_environment(args, scope), flags)
    settings.raise_if_invalid()
    outlets = ("agent.to", "agent.serve", "agent.drop")
    if args.role == "agent" and all(settings.values[outlet].value is None for outlet in outlets):
        raise UsageError(
            "the agent has no destination: give --to URL, or set agent.to, agent.serve "
            f"or agent.drop in {args.config or SYSTEM_SETTINGS_FILE}"
        )
    return settings


def _environment(args: argparse.Namespace, scope: ServiceScope) -> dict[str, str]:
    # Not os.environ: the service does not run with the variables of this shell.
    return {"FLEET_SMI_CONFIG": args.config} if args.config else scope.settings_environment


def _service(args: argparse.Namespace, settings: SettingsLayer, scope: ServiceScope) -> ServiceUnit:
    state = settings.values[f"{args.role}.state"]
    own_state = None if state.origin == DEFAULT_ORIGIN else state.value
    drop = settings.values["agent.drop"].value if args.role == "agent" else None
    config_flag = ("--config", args.config) if args.config else ()
    command = (*own_program(), args.role, *config_flag)
    env_file = scope.env_path(args.role)
    if scope.is_user:
        return ServiceUnit(role=args.role, command=command, user=None, env_file=env_file)
    return ServiceUnit(
        role=args.role,
        command=command,
        user=args.user_name,
        env_file=env_file,
        # A unit that names a group that does not exist fails to start.
        groups=tuple(group for group in _GROUPS if _has_group(group)),
        state_dir=None if own_state else f"{STATE_DIR}/{args.role}",
        writable_paths=tuple(path for path in (own_state, drop) if path),
    )


def _suits_package(service: ServiceUnit, args: argparse.Namespace) -> bool:
    """Whether the unit of a package, which has the defaults, does what these settings need."""
    is_default_user = args.user_name == _DEFAULT_USER
    return is_default_user and not args.config and not service.writable_paths


def _variables(args: argparse.Namespace) -> dict[str, str]:
    """Return the flags as variables for the environment file.

    They may hold a token, so they must not be in the unit file, which every user can read.
    """
    flags = {"TO": args.to, "JOIN": args.join, "FINGERPRINT": args.fingerprint}
    return {f"FLEET_SMI_AGENT_{key}": value for key, value in flags.items() if value is not None}


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
