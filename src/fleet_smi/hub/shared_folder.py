"""Shared folders: which files in them are reports of nodes, and how to open one safely."""

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.wire.report import FILE_SUFFIX, MAX_INLINE_BYTES, MAX_REPORT_BYTES

MAX_FILES = 5_000
"""Files of one folder that are read, and nodes that it may have."""
_SUFFIXES = (FILE_SUFFIX, ".json", ".txt", ".ansi")
# Pages generated from the reports, notes to people, and temporary files of editors and writers.
_IGNORED = re.compile(
    r"\..*|readme.*|.*(?:~|\.(?:html?|css|js|csv|md|tmp|swp|part|half|bak|old))", re.IGNORECASE
)


class FileStamp(NamedTuple):
    """Identifies one version of a file, to tell whether it has changed."""

    inode: int
    size: int
    modified_ns: int


class SharedFile:
    """An open file with its status, before it is read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Of the open file, not of its path, which another file may take over at any moment.
        self._status = os.fstat(descriptor)
        status = self._status
        self.stamp = FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)
        self.modified_at: float = status.st_mtime
        """By the clock of the file server."""

    def read(self) -> bytes:
        """The whole content; raise unless it is a regular file no larger than a report can be."""
        if not stat.S_ISREG(self._status.st_mode):
            raise Refused("is not a regular file")
        # Anyone who can write to the folder could link a file there that only the hub can read.
        if self._status.st_nlink > 1:
            raise Refused("is a hard link, which is not read: let its writer replace it by a copy")
        if self._status.st_size > MAX_REPORT_BYTES:
            raise Undecodable(f"is larger than {MAX_REPORT_BYTES >> 20} MiB")
        # Limited again: it may have grown since. The decoder rejects the one byte too many.
        with open(self._descriptor, "rb", closefd=False) as file:
            return file.read(MAX_REPORT_BYTES + 1)


@contextmanager
def open_shared_file(path: Path) -> Iterator[SharedFile]:
    """Open a file for reading; raise `OSError` if that fails."""
    # Anyone who can write to the folder could place a symbolic link to a secret, or a pipe
    # that blocks its reader: neither is followed or waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield SharedFile(descriptor)
    finally:
        os.close(descriptor)


class NodeFiles(NamedTuple):
    """The files of nodes in a folder, and whether there are more than are read."""

    paths: list[Path]
    has_more: bool


def list_node_files(path: Path, known: Collection[Path] = ()) -> NodeFiles:
    """List the files of nodes in a folder, or those that match a pattern like `/nfs/cml*`.

    Of too many, those that are `known` already. Raise `Unreachable` if there is none.
    """
    folder, pattern = path, "*"
    # The name of a folder may itself contain a bracket.
    if any(wildcard in path.name for wildcard in "*?[") and not path.is_dir():
        folder, pattern = path.parent, path.name
    matching = (file for file in folder.iterdir() if fnmatch.fnmatchcase(file.name, pattern))
    files = sorted(file for file in matching if not _IGNORED.fullmatch(file.name))
    has_more = len(files) > MAX_FILES
    if has_more:
        # Stable: anyone who can write to the folder could add files whose names come first.
        files = sorted(sorted(files, key=lambda file: file not in known)[:MAX_FILES])
    if not files:
        message = "no file of a node in this folder" if folder is path else "no file matches"
        raise Unreachable(message, str(path))
    return NodeFiles(_newest_per_host(files), has_more)


def _newest_per_host(paths: list[Path]) -> list[Path]:
    """The newest file of each host: after a change from text to JSON the old file remains."""
    hosts: dict[str, list[Path]] = {}
    for path in paths:
        hosts.setdefault(target_from_path(path), []).append(path)
    return [
        files[0] if len(files) == 1 else max(files, key=_recency_key) for files in hosts.values()
    ]


def is_large(path: Path) -> bool:
    """Whether a file is larger than the report of nearly every node, and costly to decode."""
    try:
        return path.lstat().st_size > MAX_INLINE_BYTES
    except OSError:
        return False


def _recency_key(path: Path) -> tuple[bool, int]:
    # A link or a pipe, however new, never hides the regular file of a host.
    try:
        status = path.lstat()
    except OSError:
        return False, 0
    return stat.S_ISREG(status.st_mode), status.st_mtime_ns


def target_from_path(path: Path) -> str:
    """The name of the node that a file is from: the file's name without a known suffix."""
    name = path.stem if path.suffix in _SUFFIXES else path.name
    return sanitize_text(name, 128) or "unnamed"


def open_error_to_failure(error: OSError, target: str) -> DeliveryError:
    """The failure to deliver for an error of opening a file."""
    if error.errno == errno.ELOOP:  # the result of O_NOFOLLOW
        return Refused("is a symbolic link, which is not followed", target)
    if isinstance(error, PermissionError):
        return Refused("permission denied: its writer must make it readable (mode 0644)", target)
    return Unreachable(f"cannot be read: {error.strerror}", target)
