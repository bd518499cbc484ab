"""Leases binding: who holds a lock on which GPU, by what the kernel says of its locks."""

import os
from functools import lru_cache
from typing import Any

from fleet_smi.errors import NotPresent, ReadFailed
from fleet_smi.node.bindings.lease_files import find_folder, list_files, read_details
from fleet_smi.node.bindings.proc_files import parse_count
from fleet_smi.paths import user_name

# A name service may be slow, and this is read every second.
_name_of = lru_cache(maxsize=256)(user_name)


def read(root: str = "/", folder: str | None = None) -> list[dict[str, Any]]:
    """Read every lease that is held: the GPU, the process and user, and the holder's details."""
    path = find_folder(folder, root)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotPresent(f"nobody has leased a GPU: no {path}") from None
    except OSError as error:
        raise ReadFailed(f"{path}: {error.strerror}") from None
    try:
        files = list_files(opened)
        if not files:
            raise NotPresent("nobody has leased a GPU")
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
    # A holder has locked the files of all users; their own has the details.
    return [max(rows, key=lambda row: row["is_own"]) for rows in held.values()]


def read_locks(root: str = "/") -> dict[tuple[int, int], int]:
    """Return the pid that holds the `flock` on each inode, by device and inode number."""
    locks: dict[tuple[int, int], int] = {}
    try:
        with open(f"{root}/proc/locks", encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                # "->" marks those who wait for a lock.
                if len(words) < 6 or words[1] != "FLOCK" or words[3] != "WRITE":
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
