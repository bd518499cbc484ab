"""Text of the systemd units and environment files for the agent and the hub."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

STATE_DIR = "/var/lib/fleet-smi"
_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
_DESCRIPTIONS = {
    "agent": "reports the GPUs of this machine",
    "hub": "collects the GPUs of all nodes",
}
_LIMITS = {
    "agent": ("TimeoutStopSec=5s", "MemoryMax=256M", "TasksMax=64"),
    # Four times what a hub of 10,000 nodes needs: whatever goes wrong, the machine survives it.
    "hub": ("TimeoutStopSec=10s", "MemoryMax=4G"),
}
# What a user's own systemd can do without root.
_USER_HARDENING = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077"""
_HARDENING = """\
# Four hardening options are missing on purpose: PrivateDevices and ProtectClock would hide
# /dev/nvidia*, ProtectProc and ProcSubset the processes to be listed. Do not add them.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077"""


class ServiceUnit(Struct, frozen=True, kw_only=True):
    """Values of one unit; `state_dir` is `None` if the settings name another folder.

    Without a `user` it is a unit of the user's own systemd, which runs it as that user.
    """

    role: str
    command: tuple[str, ...]
    user: str | None
    env_file: str
    groups: tuple[str, ...] = ()
    state_dir: str | None = None
    writable_paths: tuple[str, ...] = ()
    written_by: str = "`fleet-smi service install`"


def unit_name(role: str) -> str:
    """Return the systemd unit name of a role."""
    return f"fleet-smi-{role}.service"


def render_unit(service: ServiceUnit) -> str:
    """Return the text of the unit file."""
    lines = [
        *_unit_section(service),
        *_service_section(service),
        *_access_lines(service),
        *_install_section(service),
    ]
    return "\n".join(lines) + "\n"


def _unit_section(service: ServiceUnit) -> Iterator[str]:
    yield f"# Written by {service.written_by}. Change it with `systemctl edit`."
    yield "[Unit]"
    yield f"Description=fleet-smi {service.role}: {_DESCRIPTIONS[service.role]}"
    if service.user:  # targets of the machine are unknown to a user's systemd
        yield "Wants=network-online.target"
        yield "After=network-online.target nvidia-persistenced.service"
    if service.writable_paths:
        yield f"RequiresMountsFor={_join_quoted(service.writable_paths)}"
    yield "# No start limit: restarts are delayed by a growing backoff instead."
    yield "StartLimitIntervalSec=0"
    yield ""


def _service_section(service: ServiceUnit) -> Iterator[str]:
    yield "[Service]"
    # `systemctl start` then waits, and fails where the program ends instead: a bad setting, a port
    # in use. For as long as it takes: a slow start on a busy machine is not a failure.
    yield "Type=notify"
    yield "TimeoutStartSec=infinity"
    # systemd expands $NAME in ExecStart, and only there.
    yield f"ExecStart={_join_quoted([word.replace('$', '$$') for word in service.command])}"
    if service.role == "hub":
        yield "ExecReload=/bin/kill -HUP $MAINPID"
    # "-": without flags there is no such file, which is not an error.
    # This one setting takes the rest of the line, blanks included.
    yield f"EnvironmentFile=-{service.env_file.replace('%', '%%')}"
    yield "Restart=always"
    yield "RestartSec=2s"
    yield "# Backoff from 2 s to a minute; systemd before 254 ignores these two and waits 2 s."
    yield "RestartSteps=6"
    yield "RestartMaxDelaySec=60s"
    yield "# A bad setting (exit code 2) does not fix itself."
    yield "RestartPreventExitStatus=2"
    # SIGTERM to the main process only: it ends its reader process itself.
    yield "KillMode=mixed"
    yield from _LIMITS[service.role]
    yield ""


def _access_lines(service: ServiceUnit) -> Iterator[str]:
    if service.role == "agent":
        # For the socket of local commands: every user has to get to it.
        yield "RuntimeDirectory=fleet-smi"
        yield "RuntimeDirectoryMode=0755"
    if service.user is None:
        yield _USER_HARDENING
        yield ""
        return
    yield f"User={service.user}"
    if service.groups:
        yield f"SupplementaryGroups={' '.join(service.groups)}"
    if service.state_dir:
        yield f"StateDirectory={service.state_dir.removeprefix('/var/lib/')}"
        yield "StateDirectoryMode=0700"
        yield f"Environment=FLEET_SMI_{service.role.upper()}_STATE={service.state_dir}"
    # ProtectSystem=strict makes everything else read-only.
    if service.writable_paths:
        yield f"ReadWritePaths={_join_quoted(service.writable_paths)}"
    yield ""
    yield _HARDENING
    yield ""


def _install_section(service: ServiceUnit) -> Iterator[str]:
    yield "[Install]"
    yield f"WantedBy={'multi-user' if service.user else 'default'}.target"


def render_env_file(values: dict[str, str]) -> str:
    """Return the text of an environment file, quoted as systemd reads it."""
    return "".join(f"{name}={_in_quotes(value)}\n" for name, value in values.items())


def _join_quoted(words: Sequence[str]) -> str:
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Escape one word of a unit: % starts a specifier, and blanks separate words."""
    literal = word.replace("%", "%%")
    return literal if _PLAIN.fullmatch(literal) else _in_quotes(literal)


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
