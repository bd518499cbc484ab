"""Parse the Linux kernel's files on a machine and its processes: loadavg, meminfo, cgroup."""

import re
from math import isfinite
from typing import Any

from fleet_smi.model.range_check import check_range
from fleet_smi.model.redaction.redact import redact
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Condition, Process

# As `random` does in the standard library: `hashlib` would load OpenSSL, 6 ms for one hash.
try:
    from _sha2 import sha256
except ImportError:
    from _sha256 import sha256  # Python 3.11

_CONDITIONS: dict[str, Condition] = {"Z": "zombie", "X": "zombie", "D": "uninterruptible"}
_KERNEL_NAME_BYTES = 15
# Patterns as text: compiled on first use, because on most machines none is needed.
_CONTAINER = (
    r"(?:docker|libpod|cri-containerd|crio|containerd|garden|machine\.slice)[-/:]([0-9a-f]{12})[0-9a-f]*"
    r"|/(?:kubepods|ecs)[^\n]*/([0-9a-f]{12})[0-9a-f]{52}\b"
)
_CONTAINER_HINTS = (
    "docker",
    "libpod",
    "containerd",
    "crio",
    "garden",
    "machine.slice",
    "kubepods",
    "ecs",
    "lxc",
)
_LXC = r"/lxc(?:\.payload)?[./]([\w.-]{1,64})"
_POD = r"pod([0-9a-f]{8}[-_](?:[0-9a-f]{4}[-_]){3}[0-9a-f]{12})"
_SLURM = r"/job_(\d+)"


def node_id_from_machine_id(machine_id: str | None, name: str) -> str:
    """Return the node's id: its machine-id, hashed because machine-id(5) calls it confidential."""
    if not machine_id:
        return f"name-{name}"
    return str(sha256(b"fleet-smi\0" + machine_id.encode("utf-8", "replace")).hexdigest()[:32])


def parse_loadavg(text: str) -> tuple[float | None, float | None, float | None]:
    """Return the load over 1, 5 and 15 minutes; `None` for each if the text is malformed."""
    try:
        one, five, fifteen = (float(field) for field in text.split()[:3])
    except ValueError:
        return None, None, None
    if not all(isfinite(figure) for figure in (one, five, fifteen)):
        return None, None, None
    return one, five, fifteen


def parse_meminfo(text: str) -> tuple[int | None, int | None]:
    """Return the used and the total bytes of memory; `None` for what the text does not have."""
    total, available = _kibibytes(text, "MemTotal:"), _kibibytes(text, "MemAvailable:")
    return (total - available if total and available is not None else None), total


def _kibibytes(text: str, key: str) -> int | None:
    fields = text.partition(key)[2].split(maxsplit=1)
    number = fields[0] if fields else ""
    return (
        int(number) * 1024 if number.isascii() and number.isdigit() and len(number) < 16 else None
    )


def process_from_procfs(pid: int, facts: dict[str, Any]) -> Process:
    """Build a process from its facts; names and commands are bytes, as in `/proc`."""
    name = sanitize_text(_name(facts["name"], facts["command"] or b""), 64)
    cgroup = facts["cgroup"] or ""
    return Process(
        pid=pid,
        parent_pid=facts["parent"],
        kind="compute",
        user=sanitize_text(facts["user"], 64) if facts["user"] else None,
        uid=facts["uid"],
        group=sanitize_text(facts["group"], 64) if facts["group"] else None,
        name=name,
        # A kernel thread or a zombie has no command line: show its name instead.
        command=sanitize_text(redact(_command_line(facts["command"] or b"")), 4096) or name,
        started_at=facts["started_at"],
        cpu_percent=check_range("cpu_percent", facts["cpu_percent"], {}),
        host_memory_bytes=facts["memory"],
        container=_container(cgroup),
        pod=_pod(cgroup),
        slurm_job=_slurm_job(facts["slurm_job"], cgroup),
        condition=_CONDITIONS.get(facts["state"]),
    )


def _name(name: bytes, command: bytes) -> str:
    # The kernel truncates a name to 15 bytes; the command line may have all of it.
    program = command.split(b"\0", 1)[0].rpartition(b"/")[2]
    whole = program if len(name) == _KERNEL_NAME_BYTES and program.startswith(name) else name
    # A program may write anything into both, a whole command line too.
    return redact(whole.decode("utf-8", "replace"))


def _command_line(command: bytes) -> str:
    return command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


def _container(cgroup: str) -> str | None:
    if not any(hint in cgroup for hint in _CONTAINER_HINTS):
        return None
    match = re.search(_CONTAINER, cgroup)
    return match[1] or match[2] if match else _first_group(_LXC, cgroup)


def _pod(cgroup: str) -> str | None:
    uid = _first_group(_POD, cgroup) if "pod" in cgroup else None
    # In the names of systemd slices "-" separates levels: there the uid is written with "_".
    return uid.replace("_", "-") if uid else None


def _first_group(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


def _slurm_job(variable: bytes | None, cgroup: str) -> str | None:
    # The environment first: from 26.05 on the path holds an opaque id instead of the number.
    if variable and variable.isdigit():
        return variable.decode()[:32]
    return _first_group(_SLURM, cgroup) if "/job_" in cgroup else None
