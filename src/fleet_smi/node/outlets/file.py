"""The node's end of `files`: its latest sample as one small file in a shared folder.

It is a report, or what `gpustat --json` prints, for pages and scripts that read that.
"""

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from fleet_smi.errors import Unreachable
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import FILE_SUFFIX, encode_report, encode_snapshot

logger = logging.getLogger(__name__)

_HALF = ".half"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+|^-", re.ASCII)
_NO_HOST = re.compile(r"[^A-Za-z0-9._-]+|^[.-]+", re.ASCII)
_LEFTOVER_SECONDS = 60.0
_GRACE_SECONDS = 0.5


class _Form(NamedTuple):
    """What a file is called, and what is in it."""

    stem: Callable[[Snapshot], str]
    suffix: str
    encoded: Callable[[Snapshot], bytes]


class FileOutlet:
    """Replaces the node's file by each snapshot; one writer, and only the latest waits for it.

    A shared disk can hang for minutes: it is written by a thread that nobody waits for.
    """

    name = "file"
    requested_interval_seconds = None

    def __init__(
        self,
        folder: str,
        *,
        mode: int = 0o644,
        file_format: Literal["report", "gpustat"] = "report",
    ) -> None:
        self._folder = folder
        self._mode = mode
        self._form = _FORMS[file_format]
        self._cleaned = False
        self._latest: Snapshot | None = None
        self._news = threading.Condition()
        self._closing = False
        self._writer: threading.Thread | None = None
        self._faults = FailureLog(logger, "drop")

    def publish(self, snapshot: Snapshot) -> None:
        """Leave it for the writer, instead of one that it has not come to."""
        with self._news:
            self._latest = snapshot
            self._news.notify()
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_on, name="drop", daemon=True)
            self._writer.start()

    def deliver(self, snapshot: Snapshot) -> None:
        """Write it now; raise `Unreachable` if the folder cannot be written."""
        try:
            self._write(snapshot)
        except OSError as error:
            raise Unreachable(f"{self._folder}: {error.strerror or error}") from None

    def close(self) -> None:
        """Let the writer end, but do not wait for a disk that hangs."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._writer is not None:
            self._writer.join(_GRACE_SECONDS)

    def _write_on(self) -> None:
        while (snapshot := self._next()) is not None:
            try:
                self.deliver(snapshot)
            except Unreachable as error:
                self._faults.record_failure(error)
            else:
                self._faults.record_success()

    def _next(self) -> Snapshot | None:
        with self._news:
            self._news.wait_for(lambda: self._latest is not None or self._closing)
            snapshot, self._latest = self._latest, None
            return snapshot

    def _write(self, snapshot: Snapshot) -> None:
        # Opened anew each time: a handle of a server that was restarted is stale.
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        form, stem = self._form, self._form.stem(snapshot)
        try:
            _replace(folder, stem, form.suffix, self._mode, form.encoded(snapshot))
            if not self._cleaned:
                _remove_leftovers(folder, stem)
                self._cleaned = True
        finally:
            os.close(folder)


def _stem(snapshot: Snapshot) -> str:
    """Two nodes with one name have two files; no name leaves the folder or hides in it."""
    name = _UNSAFE.sub("_", snapshot.name)[:64]
    return f"{name}.{_UNSAFE.sub('_', snapshot.node_id)[:8]}"


def _host(snapshot: Snapshot) -> str:
    """The name alone, by which those who read gpustat's files know a host."""
    return _NO_HOST.sub("_", snapshot.name)[:128]


def _as_report(snapshot: Snapshot) -> bytes:
    return encode_report([encode_snapshot(snapshot)], time.time())


def _as_gpustat(snapshot: Snapshot) -> bytes:
    from datetime import datetime

    from fleet_smi.compat.gpustat.codec import node_json

    local = datetime.fromtimestamp(snapshot.taken_at).astimezone()
    return node_json(snapshot, local.replace(tzinfo=None).isoformat())


_FORMS = {
    "report": _Form(_stem, FILE_SUFFIX, _as_report),
    "gpustat": _Form(_host, ".json", _as_gpustat),
}


def _replace(folder: int, stem: str, suffix: str, mode: int, data: bytes) -> None:
    half = f".{stem}.{os.urandom(4).hex()}{_HALF}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(half, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        # Closing has sent it to the server, if there is one; a rename there is atomic.
        os.rename(half, stem + suffix, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(half, dir_fd=folder)
        raise


def _remove_leftovers(folder: int, stem: str) -> None:
    """What writers of this node were killed over; that of one who writes now is younger."""
    for name in os.listdir(folder):
        if name.startswith(f".{stem}.") and name.endswith(_HALF):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if time.time() - status.st_mtime > _LEFTOVER_SECONDS:
                    os.unlink(name, dir_fd=folder)
