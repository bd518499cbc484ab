"""The agent's Unix socket for commands of local users: listening, and limits on its callers.

Every user of the machine may connect. The kernel names the user of each connection
(`SO_PEERCRED`). A connection has one request, a deadline and a thread; how many there are is
limited per user and in all, so that no caller can stop the agent.
"""

import contextlib
import errno
import logging
import os
import select
import socket
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable

from fleet_smi.errors import StateError
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.token_bucket import TokenBucket

logger = logging.getLogger(__name__)
_MAX_CONNECTIONS = 16
_MAX_PER_USER = 3
_BURST, _PER_SECOND = 40, 10
_BACKLOG = 64
_CHECK_SECONDS = 5.0
# A flood of connections is refused slowly: it must not take the processor from the samples. All
# that wait are taken first, so that others find a place among them.
_REFUSAL_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.005, 0.3
_CLOSE_TIMEOUT_SECONDS = 0.5
_OTHERS_MAY_WRITE = 0o022
_MAX_PATH_BYTES = 98  # the kernel takes 107, and a draft of the socket has a longer name
_BUSY_BODY = b'{"error":{"code":"too_many_requests","message":"too many requests: try again"}}'
_BUSY = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BUSY_BODY), _BUSY_BODY)
)


class CallerLimits:
    """Bounds the open connections and the rate of requests of each user."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: Counter[int] = Counter()
        self._rates = TokenBucket(burst=_BURST, refill_seconds=1 / _PER_SECOND)
        self._lock = threading.Lock()

    def acquire(self, uid: int) -> bool:
        """Take a slot for one more connection of this user; return whether there was one."""
        with self._lock:
            full = self._open.total() >= _MAX_CONNECTIONS or self._open[uid] >= _MAX_PER_USER
            if full or self._rates.acquire(str(uid), self._clock()):
                return False
            self._open[uid] += 1
        return True

    def release(self, uid: int) -> None:
        """Return the slot of a closed connection."""
        with self._lock:
            self._open -= Counter([uid])


class LocalSocket:
    """Listens on a path from `start` until `close`, and calls `handle` for each connection.

    A path that cannot be used is logged and tried again: the agent reports all the same. A socket
    that was removed is made again; where another agent listens, this one waits for its end.
    """

    def __init__(self, path: str, handle: Callable[[socket.socket, int], None]) -> None:
        self._path = path
        self._handle = handle
        self._limits = CallerLimits()
        self._file: tuple[int, int] | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = FailureLog(logger, "local-socket")

    def start(self) -> None:
        """Listen, from a background thread."""
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name="local", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests in progress end with the process."""
        if self._thread is None or self._closing.is_set():
            return
        self._closing.set()
        os.close(self._wake_writer)
        self._thread.join(_CLOSE_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                listener = self._listen()
            except (StateError, OSError) as error:
                self._failures.record_failure(_explained(self._path, error))
                self._closing.wait(_CHECK_SECONDS)
                continue
            self._failures.record_success()
            with listener:
                self._accept(listener)
        self._unlink_own()
        os.close(self._wake_reader)

    def _listen(self) -> socket.socket:
        if len(os.fsencode(self._path)) > _MAX_PATH_BYTES:
            raise StateError(f"the path {self._path} is too long for a socket")
        _prepare_folder(os.path.dirname(self._path))
        _require_unused(self._path)
        draft = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(draft)
            os.chmod(draft, 0o666)  # noqa: S103  # every user may connect
            listener.listen(_BACKLOG)
            listener.settimeout(0)
            self._file = _file_id(draft)
            # Renamed when it is ready: nobody connects before, and a stale socket is replaced.
            os.rename(draft, self._path)
        except BaseException:
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        return listener

    def _accept(self, listener: socket.socket) -> None:
        """Accept connections until the socket is closed, or its file is no longer this one's."""
        poller = select.poll()
        for descriptor in (listener.fileno(), self._wake_reader):
            poller.register(descriptor, select.POLLIN)
        while not self._closing.is_set():
            if not poller.poll(_CHECK_SECONDS * 1000):
                if _file_id(self._path) != self._file:
                    return
                continue
            try:
                refused = self._accept_waiting(listener)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    return
                self._closing.wait(_CHECK_SECONDS)
            else:
                self._closing.wait(min(refused * _REFUSAL_PAUSE_SECONDS, _MAX_PAUSE_SECONDS))

    def _accept_waiting(self, listener: socket.socket) -> int:
        """Accept the connections that wait; return how many of them were refused."""
        refused = 0
        for _ in range(_BACKLOG):
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                break
            except ConnectionAbortedError:
                continue  # the caller is gone already
            refused += not self._admit(connection)
        return refused

    def _admit(self, connection: socket.socket) -> bool:
        """Serve a connection in a thread; refuse it and return `False` if there are too many."""
        uid = _peer_uid(connection)
        if self._limits.acquire(uid):
            try:
                thread = threading.Thread(target=self._serve, args=(connection, uid), daemon=True)
                thread.start()
            except RuntimeError:  # no more threads on this machine
                self._limits.release(uid)
            else:
                return True
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0)
            connection.send(_BUSY)
        return False

    def _serve(self, connection: socket.socket, uid: int) -> None:
        try:
            with connection:
                self._handle(connection, uid)
        except OSError:
            pass  # the caller is gone, or too slow
        except Exception:  # a bug met by one request must not stop the others
            logger.exception("bug in a request of a local user")
        finally:
            self._limits.release(uid)

    def _unlink_own(self) -> None:
        if self._file is not None and _file_id(self._path) == self._file:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def _peer_uid(connection: socket.socket) -> int:
    size = struct.calcsize("3i")
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("3I", data)
    return int(uid)


def _prepare_folder(folder: str) -> None:
    """Create the folder if it is missing; raise `StateError` if others could change it."""
    try:
        os.mkdir(folder, 0o755)
    except FileExistsError:
        pass
    else:
        os.chmod(folder, 0o755)  # noqa: S103  # every user has to get in, whatever the umask is
    for part in _with_parents(os.path.realpath(folder)):
        status = os.lstat(part)
        if status.st_uid not in (0, os.geteuid()):
            raise StateError(
                f"{part} belongs to another user: set agent.socket to a path elsewhere"
            )
        is_sticky = status.st_mode & stat.S_ISVTX and part != os.path.realpath(folder)
        if status.st_mode & _OTHERS_MAY_WRITE and not is_sticky:
            raise StateError(f"others may write to {part}: set agent.socket to a path elsewhere")


def _with_parents(folder: str) -> list[str]:
    parts = [folder]
    while parts[-1] != "/":
        parts.append(os.path.dirname(parts[-1]))
    return parts


def _require_unused(path: str) -> None:
    """Raise `StateError` if another agent listens there, or if it is no socket at all."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise StateError(f"{path} is not a socket: remove it, or set agent.socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # left by an agent that was killed
        except OSError as error:
            if error.errno != errno.EAGAIN:  # else its queue is full
                raise
    raise StateError(f"another agent listens at {path}: set agent.socket for this one")


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _explained(path: str, error: Exception) -> Exception:
    if isinstance(error, StateError):
        return error
    reason = getattr(error, "strerror", None) or error
    return StateError(f"local users cannot be served at {path}: {reason}; set agent.socket")
