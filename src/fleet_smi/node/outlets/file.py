"""The `file` outlet: overwrite one small file in a shared folder with each sample.

The file is a report, or another system's format (`EXTRA_FORMATS`) for pages and scripts that
read that.
"""

import contextlib
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from fleet_smi.errors import Unreachable
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.wire.report import FILE_SUFFIX, encode_report, encode_snapshot

logger = logging.getLogger(__name__)

EXTRA_FORMATS: dict[str, str] = {
    "gpustat": "fleet_smi.compat.gpustat.file_format",
    "gpustat-text": "fleet_smi.compat.gpustat.text_file_format",
}
"""Value of `agent.drop_format` -> the module whose `FILE_FORMAT` it is."""

_TEMPORARY_SUFFIX = ".half"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+|^-", re.ASCII)
_LEFTOVER_SECONDS = 60.0  # a younger one may still be written by another agent of this node
_CLOSE_TIMEOUT_SECONDS = 0.5


class FileFormat(NamedTuple):
    """How a file is named (`stem` + `suffix`) and encoded."""

    stem: Callable[[Snapshot], str]
    suffix: str
    encode: Callable[[Snapshot], bytes]


class FileOutlet:
    """Writes the node's file from one background thread, which skips to the latest snapshot.

    A shared disk can hang for minutes, so neither a tick nor the end of the agent waits for it.
    """

    name = "file"
    requested_interval_seconds = None

    def __init__(
        self,
        folder: str,
        *,
        mode: int = 0o644,
        file_format: str = "report",
        commands: CommandVisibility = "full",
    ) -> None:
        self._folder = folder
        self._commands = commands
        self._mode = mode
        self._format = _load_format(file_format)
        self._leftovers_removed = False
        self._latest: Snapshot | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._writer: threading.Thread | None = None
        self._failures = FailureLog(logger, "drop")

    def publish(self, snapshot: Snapshot) -> None:
        """Hand the snapshot to the writer; it replaces one that is not written yet."""
        with self._changed:
            self._latest = snapshot
            self._changed.notify()
        # Not before the first sample: with `--once` there is no thread.
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_loop, name="drop", daemon=True)
            self._writer.start()

    def deliver(self, snapshot: Snapshot) -> None:
        """Write the snapshot now; raise `Unreachable` if the folder cannot be written."""
        try:
            self._write(snapshot)
        except OSError as error:
            raise Unreachable(f"{self._folder}: {error.strerror or error}") from None

    def close(self) -> None:
        """Write the last snapshot and stop; wait only briefly, in case the disk hangs."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._writer is not None:
            self._writer.join(_CLOSE_TIMEOUT_SECONDS)

    def _write_loop(self) -> None:
        while (snapshot := self._wait_for_snapshot()) is not None:
            try:
                self.deliver(snapshot)
            except Unreachable as error:
                self._failures.record_failure(error)
            else:
                self._failures.record_success()

    def _wait_for_snapshot(self) -> Snapshot | None:
        """The latest unwritten snapshot; `None` once closed and all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest is not None or self._closing)
            snapshot, self._latest = self._latest, None
            return snapshot

    def _write(self, snapshot: Snapshot) -> None:
        # The folder is opened for each write: the handle of an NFS server that restarted is stale.
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stem = self._format.stem(snapshot)
        try:
            data = self._format.encode(mask_commands(snapshot, self._commands))
            _replace_file(folder, stem, self._format.suffix, self._mode, data)
            # Once per run is enough: only a writer that was killed leaves any.
            if not self._leftovers_removed:
                _remove_leftovers(folder, stem)
                self._leftovers_removed = True
        finally:
            os.close(folder)


def create_outlet(folder: str, options: OutletOptions) -> FileOutlet:
    """Create the outlet of `--drop`."""
    settings = options.settings
    # Everybody on the shared disk can read a file of mode 0644, and no hub stands before it.
    by_mode: CommandVisibility = "name" if settings.drop_mode & stat.S_IROTH else "full"
    return FileOutlet(
        folder,
        mode=settings.drop_mode,
        file_format=settings.drop_format,
        commands=settings.drop_commands or by_mode,
    )


def _load_format(name: str) -> FileFormat:
    if name == "report":
        return _REPORT
    file_format: FileFormat = import_module(EXTRA_FORMATS[name]).FILE_FORMAT
    return file_format


def _stem(snapshot: Snapshot) -> str:
    """Node name and start of the node id, so that two nodes of one name have two files.

    Unsafe characters are replaced: no name can lead out of the folder or make a hidden file.
    """
    name = _UNSAFE.sub("_", snapshot.name)[:64]
    return f"{name}.{_UNSAFE.sub('_', snapshot.node_id)[:8]}"


def _encode(snapshot: Snapshot) -> bytes:
    return encode_report([encode_snapshot(snapshot)], time.time())


_REPORT = FileFormat(_stem, FILE_SUFFIX, _encode)


def _replace_file(folder: int, stem: str, suffix: str, mode: int, data: bytes) -> None:
    """Write a temporary file and rename it, so that no reader sees half a file."""
    temporary = f".{stem}.{os.urandom(4).hex()}{_TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            # Not as the mode of `open`, which the umask would change.
            os.fchmod(file.fileno(), mode)
        # Closing has sent the data to the file server, if there is one; a rename is atomic there.
        os.rename(temporary, stem + suffix, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _remove_leftovers(folder: int, stem: str) -> None:
    """Remove old temporary files, which killed writers of this node have left."""
    for name in os.listdir(folder):
        if name.startswith(f".{stem}.") and name.endswith(_TEMPORARY_SUFFIX):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if time.time() - status.st_mtime > _LEFTOVER_SECONDS:
                    os.unlink(name, dir_fd=folder)
