"""Lease locks: take, check and release the exclusive use of a GPU, by `flock`.

The kernel releases a lock when its process ends, however that happens. Descriptors are closed in
programs that the process starts, so that a child which outlives it does not keep the lock.
"""

import fcntl
import os
import stat
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.node.bindings.lease_files import (
    format_details,
    list_files,
    own_names,
    read_details,
)
from fleet_smi.node.bindings.leases import read_locks

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ATTEMPTS = 8


class LeaseLock(NamedTuple):
    """A lease that this process holds: the descriptors of the files of all users for one GPU."""

    uuid: str
    own: int
    descriptors: tuple[int, ...]

    @property
    def is_intact(self) -> bool:
        """Whether its own file is still in the folder, where others look for it."""
        return os.fstat(self.own).st_nlink > 0

    def release(self) -> None:
        """Give the GPU back."""
        for descriptor in self.descriptors:
            # Not by closing alone: a forked child may still have the descriptor open.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def try_take(folder: int, uuid: str, details: dict[str, str]) -> LeaseLock | None:
    """Take the lease of a GPU or instance; `None` where somebody else holds it. Never waits."""
    for _ in range(_ATTEMPTS):
        own_file = _open_own(folder, uuid)
        # After the own file exists: of two takers at least one sees the files of both.
        locked = _lock_all(folder, uuid, own_file)
        if locked is None:
            return None
        lock = LeaseLock(uuid, own_file, locked)
        if lock.is_intact:
            data = format_details({**details, "pid": str(os.getpid())})
            os.pwrite(own_file, data, 0)
            os.ftruncate(own_file, len(data))
            return lock
        lock.release()  # somebody cleaned up between open and lock
    raise StateError("files in the folder of leases vanish again and again: is it being cleaned?")


def _open_own(folder: int, uuid: str) -> int:
    """Open or create this user's file for a GPU."""
    uid = os.geteuid()
    for name in own_names(uuid, uid):
        # Without O_CREAT first: the kernel refuses it for files of others (fs.protected_regular).
        for flags in (0, os.O_CREAT | os.O_EXCL, 0):
            try:
                file = os.open(name, os.O_RDWR | _OPEN | flags, 0o644, dir_fd=folder)
            except OSError:
                continue
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and (status.st_uid, status.st_nlink) in {
                (uid, 0),
                (uid, 1),
            }:
                if flags:
                    os.fchmod(file, 0o644)  # whatever the umask is
                return file
            os.close(file)
            break
    raise StateError(
        f"no lease file of GPU {uuid} can be created: names like {own_names(uuid, uid)[0]} are "
        "in use by others, or the folder is not writable; ask the administrator to remove them"
    )


def _lock_all(folder: int, uuid: str, own_file: int) -> tuple[int, ...] | None:
    """Lock the files of all users for a GPU, in order of their names; `None` if one is locked."""
    own = os.fstat(own_file)
    descriptors: list[int] = []
    pending = [own_file]
    try:
        for each in list_files(folder, uuid):
            if each.inode == (own.st_dev, own.st_ino):
                file = pending.pop() if pending else -1
            else:
                file = _open_other(folder, each.name, each.inode)
            if file < 0:
                continue
            descriptors.append(file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for file in pending:  # its own name is gone again; the caller notices
            descriptors.append(file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        for file in {*descriptors, own_file}:
            os.close(file)
        return None
    return tuple(descriptors)


def _open_other(folder: int, name: str, inode: tuple[int, int]) -> int:
    """Open the file of another user; -1 where it is gone, or closed to us and not locked."""
    try:
        return os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
    except FileNotFoundError:
        return -1
    except OSError:
        # Its owner has closed it to others: the kernel still says whether it is locked.
        if inode in read_locks():
            raise BlockingIOError from None
        return -1


def own_last_used(folder: int) -> list[str]:
    """Return the UUIDs of the GPUs that this user had before, the latest first."""
    uid = os.geteuid()
    own = [file for file in list_files(folder) if file.uid == uid]
    own.sort(key=lambda file: file.changed_at, reverse=True)
    return [file.uuid for file in own if read_details(folder, file.name)]


def was_taken_since(folder: int, uuid: str, moment: float) -> bool:
    """Whether anybody has taken the lease of a GPU since a moment, by the clock of the machine."""
    return any(file.changed_at >= moment for file in list_files(folder, uuid))
