"""Lease locks: take, check and release the exclusive use of a GPU, by `flock`.

The kernel releases a lock when its process ends, however that happens. Descriptors are closed in
programs that the process starts, so that a child which outlives it does not keep the lock.

A taker locks the files of all users for the GPU, writes into its own which process it is, and then
looks for other holders once more. Locks of anybody but the owner of a file are passed over (see
`lease_lockers.py`). Of two takers at least one sees the other: each has locked its own file and
written into it before its last look.
"""

import contextlib
import errno
import fcntl
import os
import time
from typing import NamedTuple

from fleet_smi.errors import StateError
from fleet_smi.node.bindings.lease_files import (
    LeaseFile,
    format_details,
    list_files,
    own_name,
    read_details,
)
from fleet_smi.node.bindings.lease_lockers import (
    Inode,
    find_holder,
    identify_self,
    is_described,
    is_process_of,
    read_locks,
    read_process,
)

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ATTEMPTS = 8
_MAX_OTHERS = 64  # descriptors per GPU; the files of further users are looked at, and closed
# A taker that has locked files becomes a holder at once: for so long it may be interrupted.
_PATIENCE_SECONDS, _LOOK_SECONDS = 0.03, 0.002


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


class _OwnFile(NamedTuple):
    descriptor: int
    name: str
    inode: Inode


class _Held(Exception):
    """Somebody holds the GPU."""


def try_take(folder: int, uuid: str, details: dict[str, str]) -> LeaseLock | None:
    """Take the lease of a GPU or instance; `None` where somebody else holds it. Never waits."""
    unusable: set[Inode] = set()
    for _ in range(_ATTEMPTS):
        own = _open_own(folder, uuid, unusable)
        try:
            lock = _lock_all(folder, uuid, own)
        except _Held:
            return None
        if lock is None:
            unusable.add(own.inode)
            continue
        _write(lock, details)
        if _holder_beside(folder, lock):
            lock.release()
            return None
        if lock.is_intact:
            return lock
        lock.release()  # somebody cleaned up between open and lock
    raise StateError("files in the folder of leases vanish again and again: is it being cleaned?")


def _open_own(folder: int, uuid: str, unusable: set[Inode]) -> _OwnFile:
    """Open this user's file for a GPU; create one where there is none that can be used."""
    uid, problem = os.geteuid(), "all names are in use"
    for each in list_files(folder, uuid):
        if each.uid == uid and each.inode not in unusable:
            found = _open_existing(folder, each)
            if found is not None:
                return found
    # A name that others have taken cannot be removed in a sticky folder: then one at random.
    for extra in ("", os.urandom(6).hex(), os.urandom(6).hex()):
        name = own_name(uuid, uid, extra)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN
        try:
            # Closed to others, who could lock it, until it is locked.
            file = os.open(name, flags, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EEXIST:
                problem = str(error.strerror)
            continue
        status = os.fstat(file)
        return _OwnFile(file, name, (status.st_dev, status.st_ino))
    raise StateError(f"no lease file of GPU {uuid} can be created in the lease folder: {problem}")


def _open_existing(folder: int, file: LeaseFile) -> _OwnFile | None:
    """Open a file of this user; remove it if it cannot be opened, or has another name elsewhere."""
    try:
        opened = os.open(file.name, os.O_RDWR | _OPEN, dir_fd=folder)
    except OSError:
        _unlink(folder, file.name)
        return None
    status = os.fstat(opened)
    if (status.st_dev, status.st_ino) == file.inode and status.st_nlink <= 1:
        return _OwnFile(opened, file.name, file.inode)
    os.close(opened)
    _unlink(folder, file.name)
    return None


def _lock_all(folder: int, uuid: str, own: _OwnFile) -> LeaseLock | None:
    """Lock the files of all users for a GPU, in order of their names; raise `_Held`.

    `None` if its own file is locked by somebody who holds nothing.
    """
    others: list[int] = []
    is_own_locked = False
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, own.descriptor)
        for each in list_files(folder, uuid):
            if each.inode == own.inode:
                is_own_locked = _lock(folder, each, own.descriptor, deadline)
                continue
            file = _open_other(folder, each.name)
            if file is None:
                continue  # gone again, or closed to us: the last look finds its holder
            if _lock(folder, each, file, deadline) and len(others) < _MAX_OTHERS:
                others.append(file)
                opened.callback(os.close, file)
            else:
                os.close(file)
        # Its name may be gone again; the caller notices.
        if not is_own_locked and not _try_lock(own.descriptor):
            _remove_if_locked_by_stranger(folder, own)
            return None
        opened.pop_all()
    return LeaseLock(uuid, own.descriptor, (*others, own.descriptor))


def _lock(folder: int, file: LeaseFile, descriptor: int, deadline: float) -> bool:
    """Lock a file; `False` if it is locked by somebody who holds nothing; raise `_Held`.

    At the deadline nobody is waited for any more: many files may be locked like this.
    """
    if _try_lock(descriptor):
        return True
    while True:
        locks = read_locks(device=file.inode[0])
        # Released meanwhile, or locked by a process outside this container: nobody can tell.
        if file.inode not in locks or _is_locked_by_holder(folder, file, locks):
            raise _Held
        # Whoever it is may be in the middle of taking the GPU, by a file of their own.
        is_last = time.monotonic() > deadline
        files = [file] if is_last else list_files(folder, file.uuid)
        if any(_has_holder(folder, each, locks) for each in files):
            raise _Held
        if is_last:
            return False
        time.sleep(_LOOK_SECONDS)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_other(folder: int, name: str) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
    except OSError:
        return None


def _holder_beside(folder: int, lock: LeaseLock) -> bool:
    """Whether somebody else holds the GPU too, by a file that this process has not locked."""
    mine = {(each.st_dev, each.st_ino) for each in map(os.fstat, lock.descriptors)}
    others = [each for each in list_files(folder, lock.uuid) if each.inode not in mine]
    if not others:
        return False
    locks = read_locks(device=others[0].inode[0])
    return any(_has_holder(folder, each, locks) for each in others)


def _is_locked_by_holder(folder: int, file: LeaseFile, locks: dict[Inode, list[int]]) -> bool:
    """Whether a locker of this file holds the GPU by the usual file of its own user."""
    for pid in locks[file.inode]:
        process = read_process("/", pid)
        for uid in () if process is None else process.uids:
            name = own_name(file.uuid, uid)
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if (
                    process is not None
                    and status.st_uid == uid
                    and pid in locks.get((status.st_dev, status.st_ino), ())
                    and is_described(process, uid, read_details(folder, name))
                ):
                    return True
    return False


def _has_holder(folder: int, file: LeaseFile, locks: dict[Inode, list[int]]) -> bool:
    if file.inode not in locks:
        return False
    details = read_details(folder, file.name)
    return find_holder("/", locks[file.inode], file.uid, details) is not None


def _remove_if_locked_by_stranger(folder: int, own: _OwnFile) -> None:
    """Remove a file of this user's that another user has locked, and keeps locked."""
    pids = read_locks(device=own.inode[0]).get(own.inode)
    uid = os.geteuid()
    if pids and not any(is_process_of(pid, uid) for pid in pids):
        _unlink(folder, own.name)


def _write(lock: LeaseLock, details: dict[str, str]) -> None:
    # The process first: it must not be cut off.
    data = format_details({**identify_self(), **details})
    try:
        os.pwrite(lock.own, data, 0)
        os.ftruncate(lock.own, len(data))
    except OSError as error:
        lock.release()
        raise StateError(f"the lease cannot be written to its folder: {error.strerror}") from None
    os.fchmod(lock.own, 0o644)  # whatever the umask is


def _unlink(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def own_last_used(folder: int) -> list[str]:
    """Return the UUIDs of the GPUs that this user had before, the latest first."""
    uid = os.geteuid()
    own = [file for file in list_files(folder) if file.uid == uid]
    own.sort(key=lambda file: file.changed_at, reverse=True)
    return [file.uuid for file in own if read_details(folder, file.name)]


def was_taken_since(folder: int, uuid: str, moment: float) -> bool:
    """Whether anybody has taken the lease of a GPU since a moment, by the clock of the machine."""
    return any(file.changed_at >= moment for file in list_files(folder, uuid))
