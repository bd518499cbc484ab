"""Lease files: one per GPU and user, in a sticky folder that every user of a machine can write to.

A lease is an exclusive `flock` on such a file. Each user has files of their own, because in a
sticky folder nobody but the owner (and root) can remove or replace a file: if all users shared
one file per GPU, its creator could replace it under a lock. A taker locks the files of all
users for that GPU. The details in a file are its owner's words: text, and trusted for nothing
but which of the owner's processes holds the lease.
"""

import os
import re
import stat
from typing import NamedTuple

from fleet_smi.errors import NotPresent, StateError
from fleet_smi.node.bindings.lease_quota import FileQuota
from fleet_smi.paths import user_name

PREFIX, SUFFIX = "fleet-smi.", ".lease"
_EXTRA = re.compile("[0-9a-f]{1,16}")
_MAX_DETAILS_BYTES = 4096
_MAX_NAME = 200
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # of root, which is checked
_DEFAULT_FOLDERS = ("run/lock", SHARED_MEMORY[1:])
_SHARED = stat.S_ISVTX | stat.S_IWOTH
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_REMOTE = ("nfs", "cifs", "smb", "fuse", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "gluster")


class LeaseFile(NamedTuple):
    """A valid lease file: it is regular, and its name has the uid of its owner."""

    name: str
    uuid: str
    uid: int
    inode: tuple[int, int]
    changed_at: float


def find_folder(folder: str | None, root: str = "/") -> str:
    """Return the folder of the lease files: the one that is set, or the machine's own.

    Raise `NotPresent` where the machine has none that all users share.
    """
    if folder is not None:
        return folder
    # The same one for every user: a folder of root's cannot be exchanged by anybody else.
    for name in _DEFAULT_FOLDERS:
        path = os.path.join(root, name)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & _SHARED == _SHARED
        if is_shared and status.st_uid == 0:
            return path
    raise NotPresent(
        "no folder for leases: neither /run/lock nor /dev/shm is writable for all and sticky; "
        "set node.lease_dir"
    )


def open_folder(path: str) -> int:
    """Open the folder for taking leases, and create it where it is missing.

    Raise `StateError` where others could tamper with the locks in it, or on a network file system.
    """
    before = os.umask(0)
    try:
        os.mkdir(path, 0o1777)
    except FileExistsError:
        pass
    except OSError as error:
        raise StateError(f"{path} cannot be created for leases: {error.strerror}") from None
    finally:
        os.umask(before)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(
            f"{path} cannot be used for leases: {error.strerror}; it must be a folder, not a link"
        ) from None
    try:
        _check_folder(path, os.fstat(folder))
    except StateError:
        os.close(folder)
        raise
    return folder


def _check_folder(path: str, status: os.stat_result) -> None:
    remedy = f"as root: install -d -m 1777 -o root {path}"
    if status.st_uid not in (0, os.geteuid()):
        owner = user_name(status.st_uid)
        raise StateError(f"{path} belongs to {owner}, who could remove leases of others; {remedy}")
    if status.st_mode & _OTHERS_MAY_WRITE and not status.st_mode & stat.S_ISVTX:
        raise StateError(f"others could remove leases in {path}: it is not sticky; {remedy}")
    kind = file_system(status.st_dev)
    if kind is None or kind.startswith(_REMOTE):
        raise StateError(
            f"{path} is on {kind or 'an unknown file system'}, where locks are not reliable: "
            "set node.lease_dir to a local folder (tmpfs, ext4, xfs)"
        )


def file_system(device: int) -> str | None:
    """Return the type of the mounted file system with this device number; `None` if unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(" ")
                if fields[2] == number:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        return None
    return None


def is_mounted(path: str) -> bool:
    """Whether a folder is a mount point of its own, as one shared with a container is."""
    return os.path.ismount(path)


def own_name(uuid: str, uid: int, extra: str = "") -> str:
    """Return the name of a user's file for a GPU; `extra` is hex, for where others use the name."""
    key = _encode(uuid)
    if len(key) > _MAX_NAME:
        raise StateError(f"the UUID {uuid[:40]}... is too long for a lease")
    return f"{PREFIX}{key}.{uid}{'.' if extra else ''}{extra}{SUFFIX}"


def list_files(folder: int, uuid: str | None = None) -> list[LeaseFile]:
    """Return the valid files in order of their names: of one GPU, or all."""
    found: list[LeaseFile] = []
    quota = FileQuota()
    wanted = None if uuid is None else _encode(uuid)
    for name in sorted(os.listdir(folder)):
        if not (name.startswith(PREFIX) and name.endswith(SUFFIX)):
            continue
        key, *numbers = name[len(PREFIX) : -len(SUFFIX)].split(".")
        if wanted is not None and key != wanted:
            continue
        if len(numbers) not in (1, 2) or not all(map(_EXTRA.fullmatch, numbers[1:])):
            continue
        # Not one of somebody who uses the name of another user, no link, pipe or folder.
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        device = _decode(key)
        if device is None or _encode(device) != key:
            continue  # no taker looks for a lock under this name
        is_valid = stat.S_ISREG(status.st_mode) and str(status.st_uid) == numbers[0]
        # Each taker has to open all of them.
        if device and is_valid and quota.allows(key, status.st_uid):
            inode, changed_at = (status.st_dev, status.st_ino), status.st_ctime_ns / 1e9
            found.append(LeaseFile(name, device, status.st_uid, inode, changed_at))
    return found


def _encode(uuid: str) -> str:
    """Return a UUID as part of a file name; not by urllib, which is slow to import."""
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte == ord("-") else f"%{byte:02X}"
        for byte in uuid.encode()
    )


def _decode(key: str) -> str | None:
    first, *rest = key.split("%")
    try:
        coded = [bytes.fromhex(part[:2]) + part[2:].encode() for part in rest]
        return b"".join([first.encode(), *coded]).decode()
    except ValueError:
        return None  # not a name that `_encode` makes


def read_details(folder: int, name: str) -> dict[str, str]:
    """Return what the owner wrote beside a lease, as text."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except OSError:
        return {}
    try:
        text = os.read(file, _MAX_DETAILS_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    finally:
        os.close(file)
    pairs = (line.partition(" ") for line in text.split("\n"))
    return {key: value for key, _, value in pairs if value}


def format_details(details: dict[str, str]) -> bytes:
    """Return details as they are written to a file: one line each."""
    lines = [f"{key} {' '.join(value.split())}" for key, value in details.items() if value]
    return "\n".join(lines).encode("utf-8", "replace")[:_MAX_DETAILS_BYTES]
