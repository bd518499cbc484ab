"""Leases binding: who holds a lock on which GPU, by what the kernel says of its locks."""

import os
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.node.bindings.lease_files import find_folder, list_files, read_details
from fleet_smi.node.bindings.proc_files import parse_count
from fleet_smi.paths import user_name

_NO_LEASE = "nobody has leased a GPU"
# A name service may be slow, and this is read every second.
_name_of = lru_cache(maxsize=256)(user_name)


class _UnleasedFolder:
    """The folder in which no lease was found last: listed again only when it was changed."""

    # A change within the same tick of the clock as the one before has the same time.
    _TICK_NANOSECONDS = 1_000_000_000

    def __init__(self) -> None:
        self._found: tuple[str, int, int, int] | None = None

    def check(self, path: str) -> None:
        """Raise `NotPresent` if the folder is as it was."""
        if self._found is not None:
            with suppress(OSError):
                if self._found == (path, *_identity(os.lstat(path))):
                    raise NotPresent(_NO_LEASE)

    def remember(self, path: str, status: os.stat_result) -> None:
        """Note that a folder, which had this status before it was listed, has no lease."""
        is_settled = time.time_ns() - status.st_mtime_ns > self._TICK_NANOSECONDS
        self._found = (path, *_identity(status)) if is_settled else None


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns


_unleased = _UnleasedFolder()


def read(root: str = "/", folder: str | None = None) -> list[dict[str, Any]]:
    """Read every lease that is held: the GPU, the process and user, and the holder's details."""
    path = find_folder(folder, root)
    _unleased.check(path)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotPresent(f"nobody has leased a GPU: no {path}") from None
    except OSError as error:
        raise ReadFailed(f"{path}: {error.strerror}") from None
    try:
        before = os.fstat(opened)
        files = list_files(opened)
        if not files:
            _unleased.remember(path, before)
            raise NotPresent(_NO_LEASE)
        locks = read_locks(root)
        held: dict[str, list[dict[str, Any]]] = {}
        for file in files:
            pid = locks.get(file.inode)
            if pid is None:
                continue
            details = read_details(opened, file.name)
            uid = _uid_of(root, pid)
            if uid is None and details.get("pid") == str(pid):
                uid = file.uid  # /proc is closed here (hidepid): a claim for oneself alone
            held.setdefault(file.uuid, []).append(_row(file.uuid, pid, uid, file, details))
    finally:
        os.close(opened)
    return [max(rows, key=_rank) for rows in held.values()]


def _rank(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Rank the locks of one GPU: the holder's own file is the one with the details.

    A user can lock a file of their own beside the holder's: who came first has the lease.
    """
    is_written = row["details"].get("pid") == str(row["pid"])
    return row["is_own"], is_written, -row["changed_at"]


def read_locks(root: str = "/") -> dict[tuple[int, int], int]:
    """Return the pid that holds the `flock` on each inode, by device and inode number."""
    locks: dict[tuple[int, int], int] = {}
    try:
        with open(f"{root}/proc/locks", encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                # "->" marks those who wait for a lock. A shared lock keeps takers out as well.
                if len(words) < 6 or words[1] != "FLOCK" or words[3] not in ("WRITE", "READ"):
                    continue
                major, minor, inode = words[5].split(":")
                device = os.makedev(int(major, 16), int(minor, 16))
                locks[device, parse_count(inode)] = int(words[4])
    except OSError as error:
        raise ReadFailed(f"/proc/locks: {error.strerror}") from None
    except ValueError:
        raise ReadFailed("/proc/locks has an unknown format") from None
    return locks


def _uid_of(root: str, pid: int) -> int | None:
    """Return the user who started a process, also where its program has the rights of another."""
    try:
        with open(f"{root}/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.stat(f"{root}/proc/{pid}").st_uid
    except OSError:
        return None


def _row(
    uuid: str, pid: int, uid: int | None, file: Any, details: dict[str, str]
) -> dict[str, Any]:
    is_own = uid == file.uid
    return {
        "uuid": uuid,
        "pid": pid,
        "uid": uid,
        "user": None if uid is None else _name_of(uid),
        "changed_at": file.changed_at,
        "is_own": is_own,
        # What another user wrote says nothing about this holder.
        "details": details if is_own else {},
    }
