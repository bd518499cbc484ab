"""The agent and the hub as systemd units: text, made from what is known of the machine."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

STATE_DIR = "/var/lib/fleet-smi"
_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
_ABOUT = {
    "agent": "tells a hub about the GPUs of this machine",
    "hub": "the GPUs of many machines in one place",
}
_LIMITS = {
    "agent": ("TimeoutStopSec=5s", "MemoryMax=256M", "TasksMax=64"),
    "hub": ("TimeoutStopSec=10s",),
}
_HARDENING = """\
# Hardened, with four exceptions on purpose: PrivateDevices and ProtectClock hide /dev/nvidia*,
# ProtectProc and ProcSubset hide the processes that are to be listed. Do not add them.
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
    """What one unit turns on; `state` is `None` where the settings name another folder."""

    role: str
    command: tuple[str, ...]
    user: str
    groups: tuple[str, ...] = ()
    state_dir: str | None = None
    writable_paths: tuple[str, ...] = ()


def unit_name(role: str) -> str:
    """What systemd calls the service."""
    return f"fleet-smi-{role}.service"


def env_file_path(role: str) -> str:
    """The file with variables for the service; only root can read it, so tokens may be there."""
    return f"/etc/fleet-smi/{role}.env"


def render_unit(service: ServiceUnit) -> str:
    """The whole unit."""
    return "\n".join([*_beginning(service), *_running(service), *_access(service), *_end()]) + "\n"


def _beginning(service: ServiceUnit) -> Iterator[str]:
    yield "# Written by `fleet-smi service install`. Change it with `systemctl edit`."
    yield "[Unit]"
    yield f"Description=fleet-smi {service.role}: {_ABOUT[service.role]}"
    yield "Wants=network-online.target"
    yield "After=network-online.target nvidia-persistenced.service"
    if service.writable_paths:
        yield f"RequiresMountsFor={_words(service.writable_paths)}"
    yield "# It never gives up: the waits below grow instead."
    yield "StartLimitIntervalSec=0"
    yield ""


def _running(service: ServiceUnit) -> Iterator[str]:
    yield "[Service]"
    # A $ would begin the name of a variable here, and only here.
    yield f"ExecStart={_words([word.replace('$', '$$') for word in service.command])}"
    yield f"EnvironmentFile=-{env_file_path(service.role)}"
    yield "Restart=always"
    yield "RestartSec=2s"
    yield "# From 2 s to a minute; a systemd before 254 does not know these two and waits 2 s."
    yield "RestartSteps=6"
    yield "RestartMaxDelaySec=60s"
    yield "# A bad setting (exit code 2) does not mend itself."
    yield "RestartPreventExitStatus=2"
    yield "KillMode=mixed"
    yield from _LIMITS[service.role]
    yield ""


def _access(service: ServiceUnit) -> Iterator[str]:
    yield f"User={service.user}"
    if service.groups:
        yield f"SupplementaryGroups={' '.join(service.groups)}"
    if service.state_dir:
        yield f"StateDirectory={service.state_dir.removeprefix('/var/lib/')}"
        yield "StateDirectoryMode=0700"
        yield f"Environment=FLEET_SMI_{service.role.upper()}_STATE={service.state_dir}"
    if service.writable_paths:
        yield f"ReadWritePaths={_words(service.writable_paths)}"
    yield ""
    yield _HARDENING
    yield ""


def _end() -> Iterator[str]:
    yield "[Install]"
    yield "WantedBy=multi-user.target"


def render_env_file(values: dict[str, str]) -> str:
    """The text of a file with variables, as systemd reads it."""
    return "".join(f"{name}={_in_quotes(value)}\n" for name, value in values.items())


def _words(words: Sequence[str]) -> str:
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """One word of a unit, in which % and blanks mean nothing but themselves."""
    literal = word.replace("%", "%%")
    return literal if _PLAIN.fullmatch(literal) else _in_quotes(literal)


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
