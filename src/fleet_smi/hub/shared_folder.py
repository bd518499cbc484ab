"""A shared folder: which of its files nodes have left there, and how one is opened."""

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.report import FILE_SUFFIX, MAX_REPORT_BYTES

_MOST_FILES = 20_000
_ENDINGS = (FILE_SUFFIX, ".json", ".txt", ".ansi")
# Pages made of what lies there, notes to people, and files that editors or writers work on.
_PASSED_OVER = re.compile(
    r"\..*|readme.*|.*(?:~|\.(?:html?|css|js|csv|md|tmp|swp|part|half|bak|old))", re.IGNORECASE
)


class FileStamp(NamedTuple):
    """By what a file is known to be the one that was read before."""

    inode: int
    size: int
    modified_ns: int


class SharedFile:
    """A file that is open: what it is, before it is read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._status = os.fstat(descriptor)
        status = self._status
        self.stamp = FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)
        self.modified_at: float = status.st_mtime
        """By the clock of whoever keeps the folder."""

    def read(self) -> bytes:
        """All of it; raise unless it is a plain file of a size that a report can have."""
        if not stat.S_ISREG(self._status.st_mode):
            raise Refused("is no plain file")
        if self._status.st_size > MAX_REPORT_BYTES:
            raise Undecodable(f"is larger than {MAX_REPORT_BYTES >> 20} MiB")
        with open(self._descriptor, "rb", closefd=False) as file:
            return file.read(MAX_REPORT_BYTES + 1)


@contextmanager
def open_shared_file(path: Path) -> Iterator[SharedFile]:
    """The file, to be read; raise `OSError` where it cannot be."""
    # Whoever can write here could put a link or a pipe: neither is followed or waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield SharedFile(descriptor)
    finally:
        os.close(descriptor)


def list_node_files(path: Path) -> list[Path]:
    """The files of nodes in a folder, or those that a pattern like `/nfs/status/cml*` names.

    Raise `Unreachable` where there is none.
    """
    folder, pattern = path, "*"
    if any(sign in path.name for sign in "*?[") and not path.is_dir():
        folder, pattern = path.parent, path.name
    found = (each for each in folder.iterdir() if fnmatch.fnmatchcase(each.name, pattern))
    kept = sorted(each for each in found if not _PASSED_OVER.fullmatch(each.name))[:_MOST_FILES]
    if not kept:
        words = "no node has left a file there" if folder is path else "no file matches"
        raise Unreachable(words, str(path))
    return _one_each(kept)


def _one_each(paths: list[Path]) -> list[Path]:
    """The newest file of each host: one that went from text to JSON has left its old one there."""
    hosts: dict[str, list[Path]] = {}
    for path in paths:
        hosts.setdefault(target_from_path(path), []).append(path)
    return [files[0] if len(files) == 1 else max(files, key=_newness) for files in hosts.values()]


def _newness(path: Path) -> tuple[bool, int]:
    try:
        status = path.lstat()
    except OSError:
        return False, 0
    return stat.S_ISREG(status.st_mode), status.st_mtime_ns


def target_from_path(path: Path) -> str:
    """What the node is called that left this file: the file's name without its ending."""
    name = next((path.stem for ending in _ENDINGS if path.suffix == ending), path.name)
    return sanitize_text(name, 128) or "unnamed"


def open_error_to_failure(error: OSError, target: str) -> DeliveryError:
    """Why a file could not be opened."""
    if error.errno == errno.ELOOP:
        return Refused("is a link, which is not followed", target)
    if isinstance(error, PermissionError):
        return Refused("may not be read: it was left with mode 0600", target)
    return Unreachable(f"cannot be read: {error.strerror}", target)
