"""Process binding: owner, command and load of processes, with caches for what rarely changes."""

import os
import time
import weakref
from typing import Any, NamedTuple

from fleet_smi.node.bindings.proc_files import (
    CACHE_SECONDS,
    HEAD_BYTES,
    BootTime,
    in_pid_namespace,
    parse_count,
    read_bytes,
    read_text,
)

_TICKS = os.sysconf("SC_CLK_TCK")
# The kernel counts in ticks of 10 ms: over less than this a load would be a guess.
_MIN_LOAD_SECONDS = 0.05
# A program can rewrite its command line, but rarely does.
_COMMAND_CACHE_SECONDS = 10.0
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri")
_MAX_OPEN_FILES = 256
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Stat(NamedTuple):
    """The used fields of a process's stat file; times in ticks, the start since boot."""

    name: bytes
    state: str
    parent: int
    ticks: int
    started: int
    pages: int


class _CachedProcess(NamedTuple):
    """What was read before: constant facts, and a command that is valid while the name is."""

    constant: dict[str, Any]
    name: bytes
    command: bytes | None
    read_at: float


class ProcessReader:
    """Reads processes by pid; what cannot change in a process's life is read once."""

    def __init__(self, cache_seconds: float = CACHE_SECONDS) -> None:
        self._cache_seconds = cache_seconds
        self._boot = BootTime()
        self._latest_start = float("inf")
        self._pids_are_foreign = False
        self._files: dict[int, int] = {}
        # The descriptors are plain numbers, which the garbage collector does not close.
        weakref.finalize(self, _close_all, self._files)
        self._known: dict[tuple[int, int], _CachedProcess] = {}
        self._cpu: dict[tuple[int, int], tuple[float, int]] = {}
        self._cached: dict[int, Any] = {}
        self._cached_at = float("-inf")

    def read(
        self, root: str = "/", pids: tuple[int, ...] = (), listed_at: float | None = None
    ) -> dict[int, Any]:
        """Return the facts of each pid, or `None` for one that is not visible from here.

        `listed_at` is when, in seconds since boot, the driver listed the pids: a process that
        started later has reused the pid of another.
        """
        now = time.monotonic()
        if now - self._cached_at >= self._cache_seconds or self._cached.keys() != set(pids):
            self._cached, self._cached_at = self._read(root, pids, listed_at), now
        return self._cached

    def _read(self, root: str, pids: tuple[int, ...], listed_at: float | None) -> dict[int, Any]:
        if not pids:
            return {}
        booted_at = self._boot.read(root)
        self._pids_are_foreign = _pids_are_foreign(root)
        # Rebuilt from the pids of this read, so that ended processes drop out.
        known, cpu = self._known, self._cpu
        self._known, self._cpu = {}, {}
        # Two ticks of tolerance: start times are whole ticks.
        self._latest_start = float("inf") if listed_at is None else listed_at + 2 / _TICKS
        for ended_pid in self._files.keys() - set(pids):
            os.close(self._files.pop(ended_pid))
        return {pid: self._facts(root, pid, booted_at, known, cpu) for pid in pids}

    def _stat_file(self, root: str, pid: int) -> bytes:
        """Return the stat file, which stays open: opening it takes longer than reading it."""
        if pid in self._files:
            try:
                # Each read from the beginning makes the kernel write the file again.
                return os.pread(self._files[pid], HEAD_BYTES, 0)
            except OSError:  # that process has ended; another may have its pid
                os.close(self._files.pop(pid))
        if len(self._files) >= _MAX_OPEN_FILES:
            return read_bytes(root, f"proc/{pid}/stat", HEAD_BYTES) or b""
        try:
            self._files[pid] = os.open(f"{root}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._files[pid], HEAD_BYTES, 0)
        except OSError:
            return b""

    def _facts(
        self,
        root: str,
        pid: int,
        booted_at: float | None,
        known: dict[tuple[int, int], _CachedProcess],
        cpu: dict[tuple[int, int], tuple[float, int]],
    ) -> dict[str, Any] | None:
        stat = _stat(self._stat_file(root, pid))
        if stat is None or stat.started / _TICKS > self._latest_start:
            return None
        # With its start time, as a pid is reused.
        key = (pid, stat.started)
        now = time.monotonic()
        own = _refresh(root, pid, stat.name, known.get(key), now)
        if own is None or (self._pids_are_foreign and not _has_gpu_open(root, pid)):
            return None
        self._known[key] = own
        load, self._cpu[key] = _load(cpu.get(key), now, stat.ticks)
        return {
            **own.constant,
            "name": stat.name,
            "command": own.command,
            "state": stat.state,
            "parent": stat.parent,
            "started_at": booted_at + stat.started / _TICKS if booted_at is not None else None,
            "cpu_percent": load,
            "memory": stat.pages * _PAGE,
        }


def _close_all(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _stat(data: bytes) -> _Stat | None:
    """Parse the stat file of a process; `None` if it is malformed."""
    try:
        # The name is in parentheses and may contain spaces and parentheses: the last one ends it.
        start, end = data.index(b"("), data.rindex(b")")
        fields = data[end + 2 :].split(None, 22)
        return _Stat(
            name=data[start + 1 : end],
            state=fields[0].decode("ascii", "replace"),
            parent=parse_count(fields[1]),
            ticks=parse_count(fields[11]) + parse_count(fields[12]),
            started=parse_count(fields[19]),
            pages=parse_count(fields[21]),
        )
    except (ValueError, IndexError):
        return None


def _pids_are_foreign(root: str) -> bool:
    """Whether the driver's pids are of another pid namespace than ours: in a GPU container.

    A driver lists pids of the host. In a container the same number may be another process, so
    only one that has a GPU open is accepted as the one that is meant.
    """
    return bool(in_pid_namespace(root)) and any(
        os.path.exists(f"{root}{device}") for device in _GPU_DEVICES
    )


def _has_gpu_open(root: str, pid: int) -> bool:
    folder = f"{root}/proc/{pid}/fd"
    try:
        links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
    except OSError:
        return False
    return any(link.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")) for link in links)


def _load(
    before: tuple[float, int] | None, now: float, ticks: int
) -> tuple[float | None, tuple[float, int]]:
    """Return the CPU load since the last sample, and the counters for the next."""
    if before is None:
        return None, (now, ticks)
    # The old counters stay, so that frequent reads add up to an interval that is long enough.
    if now - before[0] < _MIN_LOAD_SECONDS:
        return None, before
    return 100.0 * (ticks - before[1]) / _TICKS / (now - before[0]), (now, ticks)


def _refresh(
    root: str, pid: int, name: bytes, before: _CachedProcess | None, now: float
) -> _CachedProcess | None:
    """Return the cached facts, with the command read again when it may have changed."""
    constant = before.constant if before else _constant(root, pid)
    if constant is None:
        return None
    if before and before.name == name and now - before.read_at < _COMMAND_CACHE_SECONDS:
        return before
    return _CachedProcess(constant, name, read_bytes(root, f"proc/{pid}/cmdline", 8192), now)


def _constant(root: str, pid: int) -> dict[str, Any] | None:
    status = read_text(root, f"proc/{pid}/status")
    if status is None:
        return None
    # The real uid of the status file: the folder's owner is root for a process that
    # may not be dumped, no matter who runs it.
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), None)
    try:
        uid = parse_count(line.split()[1]) if line else None
    except (ValueError, IndexError):
        return None
    return {
        "uid": uid,
        **_names(uid),
        "cgroup": read_text(root, f"proc/{pid}/cgroup"),
        "slurm_job": _environment(root, pid, b"SLURM_JOB_ID="),
    }


def _names(uid: int | None) -> dict[str, str | None]:
    """Return the names of a user and of their primary group."""
    # Imported here: a machine without GPU processes needs neither.
    import grp
    import pwd

    if uid is None:
        return {"user": None, "group": None}
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return {"user": str(uid), "group": None}
    try:
        return {"user": entry.pw_name, "group": grp.getgrgid(entry.pw_gid).gr_name}
    except KeyError:
        return {"user": entry.pw_name, "group": str(entry.pw_gid)}


def _environment(root: str, pid: int, name: bytes) -> bytes | None:
    environment = read_bytes(root, f"proc/{pid}/environ", 1 << 17) or b""
    return next(
        (item[len(name) :] for item in environment.split(b"\0") if item.startswith(name)), None
    )
