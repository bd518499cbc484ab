"""Lockers: the processes that the kernel names for locks, and whose file a locker really holds.

The kernel names the process that took a lock by its pid. That process may have ended since, with
the lock kept by a child, and another one may have its pid by now. So a lock counts only where the
owner of the file says in it which process holds it, by pid and start time, and that process is
theirs. Nobody can lock anything in the name of somebody else, or keep others out with such a lock.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from fleet_smi.errors import ReadFailed
from fleet_smi.node.bindings.proc_files import parse_count

Inode = tuple[int, int]


class LockingProcess(NamedTuple):
    """Facts about a process: its users, its pids in each namespace, its start in clock ticks."""

    uids: frozenset[int]
    pids: frozenset[str]
    started: str | None


def read_locks(root: str = "/", device: int | None = None) -> dict[Inode, list[int]]:
    """Return the pids that hold a `flock` on each inode, by device and inode number.

    With `device`, only those of one file system: others may have very many.
    """
    locks: dict[Inode, list[int]] = {}
    wanted = b"" if device is None else b" %02x:%02x:" % (os.major(device), os.minor(device))
    try:
        with open(f"{root}/proc/locks", "rb") as file:
            for line in file:
                if wanted not in line:
                    continue
                words = line.split()
                # "->" marks those who wait for a lock.
                if len(words) < 6 or words[1] != b"FLOCK" or words[3] not in (b"WRITE", b"READ"):
                    continue
                major, minor, inode = words[5].split(b":")
                number = os.makedev(int(major, 16), int(minor, 16))
                locks.setdefault((number, parse_count(inode)), []).append(int(words[4]))
    except OSError as error:
        raise ReadFailed(f"/proc/locks: {error.strerror}") from None
    except ValueError:
        raise ReadFailed("/proc/locks has an unknown format") from None
    return locks


def identify_self() -> dict[str, str]:
    """Return what a holder writes about itself: the pid, and the start time in clock ticks."""
    return {"pid": str(os.getpid()), "started": _read_start("/", "self") or ""}


def is_holder(root: str, pid: int, uid: int, identity: Mapping[str, str]) -> bool:
    """Whether a locker is the process of this user that the identity describes."""
    process = read_process(root, pid)
    if process is None:
        # Ended, or hidden from us (hidepid): then the word of the file's owner has to do.
        return identity.get("pid") == str(pid) and not os.path.exists(f"{root}/proc/1")
    return is_described(process, uid, identity)


def is_described(process: LockingProcess, uid: int, identity: Mapping[str, str]) -> bool:
    """Whether a process runs as this user and is the one that the identity describes."""
    if uid not in process.uids or identity.get("pid") not in process.pids:
        return False
    return process.started is None or process.started == identity.get("started")


def find_holder(
    root: str, pids: list[int] | None, uid: int, identity: Mapping[str, str]
) -> int | None:
    """Return which of the lockers of a file is its owner's process; `None` if none is."""
    return next((pid for pid in pids or () if is_holder(root, pid, uid, identity)), None)


def is_process_of(pid: int, uid: int) -> bool:
    """Whether a process runs as this user; also if it cannot be seen."""
    process = read_process("/", pid)
    return process is None or uid in process.uids


def read_process(root: str, pid: int) -> LockingProcess | None:
    """Read what tells a process from others; `None` if it has ended, or is hidden from us."""
    uids, pids = set[int](), {str(pid)}
    try:
        with open(f"{root}/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    # The real and the effective one: a set-user-ID program has two.
                    uids.update(map(int, line.split()[1:3]))
                elif line.startswith(b"NSpid:"):
                    pids.update(line.decode("utf-8", "replace").split()[1:])
    except (OSError, ValueError, IndexError):
        try:
            uids.add(os.stat(f"{root}/proc/{pid}").st_uid)
        except OSError:
            return None
    return LockingProcess(frozenset(uids), frozenset(pids), _read_start(root, str(pid)))


def _read_start(root: str, pid: str) -> str | None:
    try:
        with open(f"{root}/proc/{pid}/stat", "rb") as file:
            data = file.read()
        return data[data.rindex(b")") + 2 :].split()[19].decode()
    except (OSError, ValueError, IndexError):
        return None
