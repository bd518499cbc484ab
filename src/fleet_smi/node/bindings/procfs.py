"""The host and its processes, read from /proc.

Straight from the files because every command pays for it: psutil takes 30 ms to import and
several times as long a process, and `fleet-smi free` has 76 ms in all.
"""

import os
import time
import weakref
from typing import Any, NamedTuple

from fleet_smi.errors import NotPresent

_TICKS = os.sysconf("SC_CLK_TCK")
# The kernel counts in ticks of 10 ms: over less than this a load would be a guess.
_SHORTEST_SECONDS = 0.05
_BOOT_KEPT_SECONDS = 60.0
# Loads over less than this say little: who looks more often is told the same again.
_KEPT_SECONDS = 1.5
# A program may rewrite its command line, but seldom does.
_COMMAND_KEPT_SECONDS = 10.0
# The kernel numbers the pid namespace of the machine itself so, and no other.
_FIRST_NAMESPACE = "pid:[4026531836]"
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri")
# Room for what is read from the head of a file: a buffer for all of it costs more than the reading.
_FIRST_LINES = 1024
_MOST_FILES = 256
_PAGE = os.sysconf("SC_PAGE_SIZE")
# More than the kernel ever counts; so many pages of 64 KiB still are a number of 63 bits.
_MOST_DIGITS = 14


class _BootTime:
    """When the machine was started. It moves when the clock is set, so it is not kept for ever."""

    def __init__(self) -> None:
        self._known: float | None = None
        self._asked_at = float("-inf")

    def read(self, root: str) -> float | None:
        if time.monotonic() - self._asked_at > _BOOT_KEPT_SECONDS:
            stat = _text(root, "proc/stat")
            if stat is None:
                raise NotPresent(f"no /proc/stat below {root}")
            self._known, self._asked_at = _boot_time(stat), time.monotonic()
        return self._known


class HostReader:
    """The machine; remembers the last CPU figures, since a load needs two."""

    def __init__(self, cache_seconds: float = _KEPT_SECONDS) -> None:
        self._kept_seconds = cache_seconds
        self._cpu: tuple[int, int] | None = None
        self._constant: dict[str, Any] = {}
        self._boot = _BootTime()
        self._told: dict[str, Any] = {}
        self._told_at = float("-inf")

    def read(self, root: str = "/") -> dict[str, Any]:
        now = time.monotonic()
        if now - self._told_at >= self._kept_seconds:
            self._told, self._told_at = self._read(root), now
        return self._told

    def _read(self, root: str) -> dict[str, Any]:
        stat = _text(root, "proc/stat", _FIRST_LINES)
        if stat is None:
            raise NotPresent(f"no /proc/stat below {root}")
        self._constant = self._constant or _constant_of_host(root)
        return {
            **self._constant,
            "hostname": os.uname().nodename,
            "booted_at": self._boot.read(root),
            "load": _text(root, "proc/loadavg", _FIRST_LINES),
            "memory": _text(root, "proc/meminfo", _FIRST_LINES),
            "cpu_percent": self._cpu_percent(stat),
        }

    def _cpu_percent(self, stat: str) -> float | None:
        try:
            ticks = [_number(word) for word in stat.split("\n", 1)[0].split()[1:9]]
            total, idle = sum(ticks), ticks[3] + ticks[4]
        except (ValueError, IndexError):
            return None
        before, self._cpu = self._cpu, (total, idle)
        if before is None or total <= before[0]:
            return None
        return 100.0 * (1 - (idle - before[1]) / (total - before[0]))


def _constant_of_host(root: str) -> dict[str, Any]:
    return {
        "kernel": os.uname().release,
        "machine_id": _text(root, "etc/machine-id") or _text(root, "var/lib/dbus/machine-id"),
        "boot_id": _text(root, "proc/sys/kernel/random/boot_id"),
        "cpu_count": os.cpu_count(),
    }


class _Stat(NamedTuple):
    """What is used of a process's stat file; times are in ticks, the start is since boot."""

    name: bytes
    state: str
    ticks: int
    started: int
    pages: int


class _Known(NamedTuple):
    """What was read of a process before: for good, and for as long as it has this name."""

    constant: dict[str, Any]
    name: bytes
    command: bytes | None
    read_at: float


class ProcessReader:
    """Facts by pid; what cannot change in a process's life is read once."""

    def __init__(self, cache_seconds: float = _KEPT_SECONDS) -> None:
        self._kept_seconds = cache_seconds
        self._boot = _BootTime()
        self._latest = float("inf")
        self._doubtful = False
        self._files: dict[int, int] = {}
        weakref.finalize(self, _close_all, self._files)
        self._known: dict[tuple[int, int], _Known] = {}
        self._cpu: dict[tuple[int, int], tuple[float, int]] = {}
        self._told: dict[int, Any] = {}
        self._told_at = float("-inf")

    def read(
        self, root: str = "/", pids: tuple[int, ...] = (), listed_at: float | None = None
    ) -> dict[int, Any]:
        """The facts of each pid, or `None` for one that cannot be seen from here.

        `listed_at` is when, in seconds since boot, the driver named the pids: a process that
        started later is another one with the same number.
        """
        now = time.monotonic()
        if now - self._told_at >= self._kept_seconds or self._told.keys() != set(pids):
            self._told, self._told_at = self._read(root, pids, listed_at), now
        return self._told

    def _read(self, root: str, pids: tuple[int, ...], listed_at: float | None) -> dict[int, Any]:
        if not pids:
            return {}
        booted_at = self._boot.read(root)
        self._doubtful = _numbers_are_anothers(root)
        known, cpu = self._known, self._cpu
        self._known, self._cpu = {}, {}
        self._latest = float("inf") if listed_at is None else listed_at + 2 / _TICKS
        for ended in self._files.keys() - set(pids):
            os.close(self._files.pop(ended))
        return {pid: self._facts(root, pid, booted_at, known, cpu) for pid in pids}

    def _stat_file(self, root: str, pid: int) -> bytes:
        """The stat file, which is kept open: to open it takes longer than to read it."""
        if pid in self._files:
            try:
                return os.pread(self._files[pid], _FIRST_LINES, 0)
            except OSError:  # that process has ended; another may have its number
                os.close(self._files.pop(pid))
        if len(self._files) >= _MOST_FILES:
            return _bytes(root, f"proc/{pid}/stat", _FIRST_LINES) or b""
        try:
            self._files[pid] = os.open(f"{root}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._files[pid], _FIRST_LINES, 0)
        except OSError:
            return b""

    def _facts(
        self,
        root: str,
        pid: int,
        booted_at: float | None,
        known: dict[tuple[int, int], _Known],
        cpu: dict[tuple[int, int], tuple[float, int]],
    ) -> dict[str, Any] | None:
        stat = _stat(self._stat_file(root, pid))
        if stat is None or stat.started / _TICKS > self._latest:
            return None
        key = (pid, stat.started)
        now = time.monotonic()
        own = _known(root, pid, stat.name, known.get(key), now)
        if own is None or (self._doubtful and not _has_gpu_open(root, pid)):
            return None
        self._known[key] = own
        load, self._cpu[key] = _load(cpu.get(key), now, stat.ticks)
        return {
            **own.constant,
            "name": stat.name,
            "command": own.command,
            "state": stat.state,
            "started_at": booted_at + stat.started / _TICKS if booted_at is not None else None,
            "cpu_percent": load,
            "memory": stat.pages * _PAGE,
        }


def _close_all(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _stat(data: bytes) -> _Stat | None:
    """The stat file of a process, or `None` if it is not as the kernel writes it."""
    try:
        # The name is in brackets and may hold blanks and brackets itself: the last one ends it.
        start, end = data.index(b"("), data.rindex(b")")
        fields = data[end + 2 :].split(None, 22)
        return _Stat(
            name=data[start + 1 : end],
            state=fields[0].decode("ascii", "replace"),
            ticks=_number(fields[11]) + _number(fields[12]),
            started=_number(fields[19]),
            pages=_number(fields[21]),
        )
    except (ValueError, IndexError):
        return None


def _number(word: bytes | str) -> int:
    if len(word) > _MOST_DIGITS or not word.isdigit():
        raise ValueError("not a number that the kernel writes")
    return int(word)


def _numbers_are_anothers(root: str) -> bool:
    """Whether drivers count pids otherwise than we do: in a container with GPUs of its own.

    A driver names the pids of the host. Inside, the same number may be somebody else, so only
    a process that has a GPU open is believed to be the one that is meant.
    """
    try:
        namespace = os.readlink(f"{root}/proc/self/ns/pid")
    except OSError:
        return False
    return namespace != _FIRST_NAMESPACE and any(
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
    """The load since the look before, and what the next look is to be compared with."""
    if before is None:
        return None, (now, ticks)
    if now - before[0] < _SHORTEST_SECONDS:
        return None, before
    return 100.0 * (ticks - before[1]) / _TICKS / (now - before[0]), (now, ticks)


def _known(root: str, pid: int, name: bytes, before: _Known | None, now: float) -> _Known | None:
    """What was known before, with the command read anew when it may be another."""
    constant = before.constant if before else _constant(root, pid)
    if constant is None:
        return None
    if before and before.name == name and now - before.read_at < _COMMAND_KEPT_SECONDS:
        return before
    return _Known(constant, name, _bytes(root, f"proc/{pid}/cmdline", 8192), now)


def _constant(root: str, pid: int) -> dict[str, Any] | None:
    status = _text(root, f"proc/{pid}/status")
    if status is None:
        return None
    # The real uid of the status file: the folder's owner is root for a process that
    # may not be dumped, whoever runs it.
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), None)
    try:
        uid = _number(line.split()[1]) if line else None
    except (ValueError, IndexError):
        return None
    return {
        "uid": uid,
        **_names(uid),
        "cgroup": _text(root, f"proc/{pid}/cgroup"),
        "slurm_job": _environment(root, pid, b"SLURM_JOB_ID="),
    }


def _names(uid: int | None) -> dict[str, str | None]:
    """What a user and their own group are called."""
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
    environment = _bytes(root, f"proc/{pid}/environ", 1 << 17) or b""
    return next(
        (item[len(name) :] for item in environment.split(b"\0") if item.startswith(name)), None
    )


def _boot_time(stat: str) -> float | None:
    line = next((line for line in stat.splitlines() if line.startswith("btime ")), None)
    try:
        return float(_number(line.split()[1])) if line else None
    except (ValueError, IndexError):
        return None


def _bytes(root: str, path: str, limit: int = 65536) -> bytes | None:
    # Straight to the kernel: a file object would cost as much again as the reading.
    try:
        file = os.open(f"{root}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, limit)
    except OSError:
        return None
    finally:
        os.close(file)


def _text(root: str, path: str, limit: int = 65536) -> str | None:
    data = _bytes(root, path, limit)
    return None if data is None else data.decode("utf-8", "replace").strip()
