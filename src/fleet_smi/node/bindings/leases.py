"""Leases binding: who holds a lock on which GPU, by what the kernel says of its locks.

A lock that is not one of the owner of its file is no lease: see `lease_lockers.py`.
"""

import os
import time
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.node.bindings.lease_files import LeaseFile, find_folder, list_files, read_details
from fleet_smi.node.bindings.lease_lockers import find_holder, read_locks
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
        locks = read_locks(root, before.st_dev)
        held: dict[str, list[dict[str, Any]]] = {}
        for file in files:
            if file.inode not in locks:
                continue
            details = read_details(opened, file.name)
            pid = find_holder(root, locks[file.inode], file.uid, details)
            if pid is not None:
                held.setdefault(file.uuid, []).append(_row(file, pid, details))
    finally:
        os.close(opened)
    # A user can lock a file of their own beside the holder's: who came first has the lease. Older
    # files of others are locked by the holder, so nobody can lock one of them meanwhile.
    return [min(rows, key=itemgetter("changed_at")) for rows in held.values()]


def _row(file: LeaseFile, pid: int, details: dict[str, str]) -> dict[str, Any]:
    return {
        "uuid": file.uuid,
        "pid": pid,
        "uid": file.uid,
        "user": _name_of(file.uid),
        "changed_at": file.changed_at,
        "details": details,
    }
