"""The agent without systemd: a background process, restarted when it ends, started by cron."""

import os
import shlex
import shutil
from pathlib import Path

from msgspec import Struct

from fleet_smi.cli.atomic_write import write_file
from fleet_smi.cli.service_scope import ServiceScope
from fleet_smi.cli.systemd_units import STATE_DIR
from fleet_smi.node.bindings import background

_NAME = "agent-background"
_SYSTEM_PID_FILE = "/run/fleet-smi-agent.pid"
_SYSTEM_LOG = "/var/log/fleet-smi-agent.log"
_SCRIPT = """\
#!/bin/sh
# Written by `fleet-smi service install agent --background`: runs the agent without systemd.
umask 077
echo $$ >{pid_file}
{prepare}while :; do
    {run}
    # A bad setting (exit code 2) does not fix itself.
    [ $? = 2 ] && exit 2
    sleep 5
done
"""


class BackgroundAgent(Struct, frozen=True):
    """The files of the background process; `user` runs it where root has installed it."""

    script: str
    pid_file: str
    log: str
    user: str | None

    def is_installed(self) -> bool:
        """Whether it was installed."""
        return Path(self.script).exists()

    def install(self, command: tuple[str, ...], variables: dict[str, str], state: str) -> bool:
        """Write the script, start it and have cron start it; return whether cron does."""
        Path(self.pid_file).parent.mkdir(0o700, parents=True, exist_ok=True)
        text = _script(self, command, variables, state)
        write_file(Path(self.script), text, 0o700, replace=True)
        self.restart()
        return background.set_cron_line(self.script, f"@reboot setsid {shlex.quote(self.script)}")

    def restart(self) -> None:
        """Start it, after ending the one that runs; raise `Unmet` if it does not start."""
        self.stop()
        background.start(self.script, self.pid_file, self.log)

    def stop(self) -> bool:
        """End it; return whether it ran."""
        return background.stop(self.script, self.pid_file)

    def uninstall(self) -> None:
        """End it and remove its files and its line in cron; its state is left alone."""
        self.stop()
        background.set_cron_line(self.script, None)
        for path in (self.script, self.pid_file):
            Path(path).unlink(missing_ok=True)


def background_agent(scope: ServiceScope, user: str, state: str) -> BackgroundAgent:
    """The background process of this user or, for root, of the machine."""
    script = f"{scope.env_folder}/{_NAME}"
    if os.geteuid() == 0:
        return BackgroundAgent(script, _SYSTEM_PID_FILE, _SYSTEM_LOG, user)
    folder = Path(state).parent
    return BackgroundAgent(script, f"{folder}/{_NAME}.pid", f"{folder}/{_NAME}.log", None)


def _as_user(user: str, command: str) -> str:
    # `su` puts a process of its own in between; not every system has `setpriv`.
    if shutil.which("setpriv"):
        ids = f"--reuid={user} --regid={user} --init-groups"
        return f"setpriv {ids} -- {command}"
    return f"su -s /bin/sh {user} -c {shlex.quote(f'exec {command}')}"


def _script(
    agent: BackgroundAgent, command: tuple[str, ...], variables: dict[str, str], state: str
) -> str:
    exported = {**variables, "FLEET_SMI_AGENT_STATE": state}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in exported.items()]
    run = shlex.join(command)
    if agent.user is not None:
        # For the socket of local commands: every user has to get to it.
        lines.append(f"install -d -m 0755 -o {agent.user} /run/fleet-smi\n")
        lines.append("export RUNTIME_DIRECTORY=/run/fleet-smi\n")
        lines.append(f"export HOME={STATE_DIR}\n")
        run = _as_user(agent.user, run)
    return _SCRIPT.format(
        pid_file=shlex.quote(agent.pid_file), prepare="".join(lines), run=f"{run} </dev/null"
    )
