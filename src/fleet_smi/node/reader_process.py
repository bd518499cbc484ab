"""Reader process: a child that runs bindings (`reader_worker.py`), and the pipes to it.

The child runs bindings only, while the parent imports the rest.
"""

import contextlib
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from fleet_smi.node.linux_only import require_linux
from fleet_smi.node.reader_worker import RawResults, ReadRequest, serve

_PR_SET_PDEATHSIG = 1
_PIPE_BYTES = 1 << 16
"""As much as a pipe holds: one read empties it."""
_KILL_GRACE_SECONDS = 0.2
# Without the current folder, whose modules could be imported for ours. Python 3.10 has no -P.
_WORKER_PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from fleet_smi.node.reader_worker import main; main()"
)


class ProcessWorker:
    """One reader process and the pipes to it."""

    def __init__(self, pid: int, requests_fd: int, results_fd: int, progress_fd: int) -> None:
        self.pid = pid
        self.requests_fd = requests_fd
        self.results_fd = results_fd
        self.progress_fd = progress_fd
        os.set_blocking(progress_fd, False)
        self._buffer = self._progress_buffer = b""
        # Not `select`, which cannot wait for a descriptor above 1023.
        self._poll = select.poll()
        self._poll.register(results_fd, select.POLLIN)

    def send(self, requests: Sequence[ReadRequest]) -> None:
        # marshal needs no import of Python code, unlike pickle; both ends are the same Python.
        data = marshal.dumps(list(requests))
        with contextlib.suppress(OSError):  # it has ended: `receive` will find out
            os.write(self.requests_fd, len(data).to_bytes(4, "big") + data)

    def receive(self, deadline: float) -> RawResults:
        self._fill(4, deadline)
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        self._fill(size, deadline)
        data, self._buffer = self._buffer[4:size], self._buffer[size:]
        results: RawResults = marshal.loads(data)
        return results

    def read_progress(self) -> list[tuple[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            self._progress_buffer += os.read(self.progress_fd, _PIPE_BYTES)
        messages = []
        while len(self._progress_buffer) >= 4:
            size = 4 + int.from_bytes(self._progress_buffer[:4], "big")
            if len(self._progress_buffer) < size:
                break
            messages.append(marshal.loads(self._progress_buffer[4:size]))
            self._progress_buffer = self._progress_buffer[size:]
        return messages

    def has_exited(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True

    def detach(self) -> None:
        """Close the pipes; the child exits when no other process holds them."""
        for pipe in (self.requests_fd, self.results_fd, self.progress_fd):
            os.close(pipe)

    def terminate(self) -> bool:
        """Close the pipes and kill the child; return whether it is gone."""
        self.detach()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        until = time.monotonic() + _KILL_GRACE_SECONDS
        while not (gone := self.has_exited()) and time.monotonic() < until:
            time.sleep(0.001)
        return gone

    def _fill(self, size: int, deadline: float) -> None:
        while len(self._buffer) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not self._poll.poll(left * 1000):
                raise TimeoutError
            more = os.read(self.results_fd, _PIPE_BYTES)
            if not more:
                raise EOFError
            self._buffer += more


def fork_worker() -> ProcessWorker:
    """Start a worker as a fork: cheap, for a process with one thread."""
    require_linux()
    requests, results, progress = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        # With a copy of our ends it would never see the end of the requests, and live on.
        for ours in (requests[1], results[0], progress[0]):
            os.close(ours)
        _die_with_parent()
        serve(requests[0], results[1], progress[1])
    for theirs in (requests[0], results[1], progress[1]):
        os.close(theirs)
    return ProcessWorker(pid, requests[1], results[0], progress[0])


def _die_with_parent() -> None:
    """Have the kernel kill this worker when its parent ends, even while it hangs.

    Only for a fork of a command: the kernel takes the thread that started the child as its
    parent, and in a user's program that thread may end before the program does.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn_worker() -> ProcessWorker:
    """Start a worker as a program of its own: for a process with threads or with CUDA in it."""
    require_linux()
    requests, results, progress = os.pipe(), os.pipe(), os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _WORKER_PROGRAM],
        {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, requests[0], 0),
            (os.POSIX_SPAWN_DUP2, results[1], 1),
            (os.POSIX_SPAWN_DUP2, progress[1], 2),
        ],
    )
    for theirs in (requests[0], results[1], progress[1]):
        os.close(theirs)
    return ProcessWorker(pid, requests[1], results[0], progress[0])
