"""Parse the processes in the output of the ssh script: one line per fact, as in `/proc`."""

from typing import Any

from fleet_smi.model.range_check import check_range
from fleet_smi.model.snapshot import Process
from fleet_smi.wire.parsers._remote_sections import ScriptOutput
from fleet_smi.wire.parsers.kernel import process_from_procfs

# USER_HZ is 100 on every architecture that has GPUs.
_TICKS_PER_SECOND = 100
_MAX_DIGITS = 14
# The script writes it for the zero bytes between arguments.
_SEPARATOR = "\x1f"


def parse_processes(output: ScriptOutput, booted_at: float | None) -> dict[int, Process]:
    """Return the processes by pid, without those whose pid was reused after the driver's answer.

    `booted_at` is the boot time of the node; where it is unknown, so are the start times.
    """
    users = _users(output.text("users"))
    # A process that started after the driver reported the pid is another one: the pid was reused.
    # Two ticks of tolerance: both times are rounded.
    latest = output.uptime_at("queried") + 2 / _TICKS_PER_SECOND
    processes = {}
    for pid, facts in _facts(output.text("processes")).items():
        stat = _stat(facts.get("stat", ""), pid)
        uid = check_range("uid", _number(facts.get("Uid:", "")), {})
        if stat is None or uid is None or stat["started"] / _TICKS_PER_SECOND > latest:
            continue
        known = _known(facts, stat, booted_at)
        processes[pid] = process_from_procfs(
            pid, {**known, "uid": uid, "user": users.get(uid, str(uid))}
        )
    return processes


def _facts(text: str) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for line in text.split("\n"):
        pid, _, rest = line.partition(" ")
        name, _, fact = rest.partition(" ")
        number = _number(pid)
        if number:
            found.setdefault(number, {}).setdefault(name, fact)
    return found


def _known(facts: dict[str, str], stat: dict[str, Any], booted_at: float | None) -> dict[str, Any]:
    command = facts.get("command", "").replace(_SEPARATOR, "\0")
    resident = _number(facts.get("VmRSS:", ""))
    started_at = None if booted_at is None else booted_at + stat["started"] / _TICKS_PER_SECOND
    return {
        "name": _bytes(stat["name"]),
        "state": stat["state"],
        "parent": stat["parent"],
        "command": _bytes(command),
        "cgroup": facts.get("cgroup"),
        "group": None,
        "slurm_job": None,
        "started_at": check_range("started_at", started_at, {}),
        "cpu_percent": None,
        "memory": check_range("host_memory_bytes", resident and resident * 1024, {}),
    }


def _stat(text: str, pid: int) -> dict[str, Any] | None:
    """Name, state and start of a process, or `None` if this is not as the kernel writes it."""
    # The name is in brackets and may hold blanks and brackets itself: the last one ends it.
    head, _, tail = text.rpartition(") ")
    number, _, name = head.partition(" (")
    fields = tail.split()
    # Field 22 of proc_pid_stat(5); the first one after the name is field 3.
    started = _number(fields[19]) if len(fields) > 19 else None
    if _number(number) != pid or started is None:
        return None
    return {"name": name, "state": fields[0], "parent": _number(fields[1]), "started": started}


def _users(text: str) -> dict[int, str]:
    pairs = (line.rpartition(":") for line in text.split("\n"))
    found = [(number, name) for name, _, uid in pairs if (number := _number(uid)) is not None]
    return dict(reversed(found))  # the first name of a uid counts, as in the user database


def _number(word: str) -> int | None:
    is_number = word.isascii() and word.isdigit() and len(word) <= _MAX_DIGITS
    return int(word) if is_number else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
