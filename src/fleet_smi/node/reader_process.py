"""Reader supervisor: reads the machine in a child process with timeouts, against hung drivers.

A driver call that never returns sits in the kernel and cannot be interrupted; the process that
made it cannot exit. So all reading is done by a worker over pipes, with a deadline. One that
misses it is killed. One that cannot even be killed is left alone, and its subject is not read
again while it lives; the other subjects are read by a new worker.

All subjects of a sample are one request and one response: a sample costs one exchange, however
many subjects it has. In a third pipe the worker reports its progress: which subject it has
started, which devices it has found. So a slow driver is distinguished from a hung one, the
culprit is known, and the GPUs behind a hung driver are still listed by name. The worker
(`reader_worker.py`) runs bindings only, while the parent imports the rest. In an agent the first
worker is a thread (`thread_reader.py`).
"""

import contextlib
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.node.reader_worker import RawResults, ReadRequest, serve

_ERRORS: dict[str, type[CollectError]] = {
    kind.__name__: kind for kind in (NotPresent, ReadFailed, DriverMismatch, NotAnswering)
}
_PR_SET_PDEATHSIG = 1
_PIPE_BYTES = 1 << 16
"""As much as a pipe holds: one read empties it."""
_KILL_GRACE_SECONDS = 0.2
_RETRY_SECONDS = 30.0
"""How long a subject that hung is not read again."""
_MAX_SLOW_SECONDS = 30.0
"""How long a worker that makes progress may take in all."""


class ReadResult(NamedTuple):
    """The value that a binding returned, or its error, and the seconds that it took."""

    value: Any
    error: CollectError | None
    seconds: float


class SubjectBackoff(NamedTuple):
    """A subject that hung: since when, when to retry, and the worker that is stuck in it."""

    since: float
    retry_at: float
    stuck_worker: "ReaderWorker | None"


class ReaderWorker(Protocol):
    """Runs bindings for a `Reader`; it may be slow, hang or die."""

    def send(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests, without waiting."""

    def receive(self, deadline: float) -> RawResults:
        """Return the next results; raise `TimeoutError` at the deadline, `EOFError` if it ended.

        After a `TimeoutError` the same results can be waited for again.
        """

    def read_progress(self) -> list[tuple[str, Any]]:
        """Return the progress messages since the last call."""

    def has_exited(self) -> bool:
        """Whether it is gone, so that its subject can be read again."""

    def detach(self) -> None:
        """Release it; it exits by itself when it has no other user."""

    def terminate(self) -> bool:
        """Stop it as far as possible; return whether it is gone."""


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


class Reader:
    """Reads subjects within timeouts, through as many workers as that takes."""

    def __init__(self, start_worker: Callable[[], ReaderWorker]) -> None:
        self._start = start_worker
        self._worker: ReaderWorker | None = None
        self._prefetched: list[ReadRequest] = []
        self._backoff: dict[str, SubjectBackoff] = {}
        self._current_subject = ""
        self._partial_results: dict[str, dict[Any, Any]] = {}

    def preload(self, subject: str) -> None:
        """Load a binding in the worker now: for NVML that is most of the first sample's time."""
        self._send([(subject, None)])

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Send requests without waiting; `read` with the same requests takes their results."""
        self._prefetched = [request for request in requests if not self._is_backing_off(request[0])]
        self._send(self._prefetched)

    def read(
        self, requests: Sequence[ReadRequest], timeout_seconds: float, total_timeout_seconds: float
    ) -> list[ReadResult]:
        """Return one result per request; give up a subject that hangs for the sake of the rest."""
        results: dict[str, ReadResult] = {}
        left = [request for request in requests if not self._is_backing_off(request[0])]
        if self._prefetched and self._prefetched != left:
            self.close()  # prefetched for other requests: those results are useless
        until = time.monotonic() + total_timeout_seconds
        timeout_left = timeout_seconds
        while left and (seconds := min(timeout_left, until - time.monotonic())) > 0:
            results |= self._exchange(left, seconds)
            left = [request for request in left if request[0] not in results]
            # Less time for each further hang, so that several fit into one sample.
            timeout_left = max(timeout_left / 3, 0.1)
        return [results.get(subject) or self._skipped(subject) for subject, _ in requests]

    def close(self) -> None:
        """Stop the worker, if it can be stopped."""
        self._prefetched = []
        self._stop_worker()

    def detach(self) -> None:
        """Release a worker that belongs to another process: in a fork of its parent."""
        worker, self._worker = self._worker, None
        self._prefetched = []
        if worker is not None:
            worker.detach()

    def _exchange(self, requests: list[ReadRequest], seconds: float) -> dict[str, ReadResult]:
        """Return the results of all requests, or the failure of the one that stopped the worker."""
        since, worker = time.time(), self._worker
        if not self._prefetched or worker is None:
            worker = self._send(requests)
        self._prefetched = []
        try:
            raw = self._wait(worker, seconds)
        except (TimeoutError, EOFError) as stop:
            subjects = [subject for subject, _ in requests]
            # Without any progress message the first subject is the one that it is in.
            culprit = self._current_subject if self._current_subject in subjects else subjects[0]
            return {culprit: self._failed(culprit, stop, since, seconds)}
        pairs = zip(requests, raw, strict=True)
        results = {subject: _to_result(*result) for (subject, _), result in pairs}
        for subject in results:
            self._backoff.pop(subject, None)
        if any(isinstance(result.error, DriverMismatch) for result in results.values()):
            self.close()  # a new worker loads the new library
        return results

    def _wait(self, worker: ReaderWorker, seconds: float) -> RawResults:
        """Wait for results while the worker makes progress within the timeout: slow is not hung."""
        now = time.monotonic()
        deadline, last_deadline = now + seconds, now + _MAX_SLOW_SECONDS
        while True:
            try:
                # In slices, so that the progress pipe is emptied before it is full: a message that
                # does not fit is dropped, and a slow worker would count as hung.
                raw = worker.receive(min(deadline, time.monotonic() + seconds / 6))
            except TimeoutError:
                now = time.monotonic()
                # Each sign of progress extends the deadline, up to the last one.
                if self._process_progress(worker) and now < last_deadline:
                    deadline = now + seconds
                elif now >= deadline:
                    raise
            except EOFError:
                self._process_progress(worker)
                raise
            else:
                self._process_progress(worker)
                return raw

    def _process_progress(self, worker: ReaderWorker) -> bool:
        """Process progress messages; return whether there were any."""
        messages = worker.read_progress()
        for subject, partial_result in messages:
            self._current_subject = subject
            if partial_result is not None:
                self._partial_results.setdefault(subject, {}).update(partial_result)
        return bool(messages)

    def _failed(self, subject: str, stop: Exception, since: float, seconds: float) -> ReadResult:
        stuck = self._stop_worker()
        # A crash is over, unlike a hang: no backoff, the next read starts a new worker.
        if isinstance(stop, EOFError):
            return ReadResult(None, ReadFailed("the reader process died"), 0.0)
        before = self._backoff.get(subject)
        retry_at = time.monotonic() + _RETRY_SECONDS
        self._backoff[subject] = SubjectBackoff(before.since if before else since, retry_at, stuck)
        return self._not_answering(subject, f"no answer within {seconds:.2g} s", seconds)

    def _skipped(self, subject: str) -> ReadResult:
        hung = subject in self._backoff
        return self._not_answering(
            subject, "still no answer" if hung else "no time was left to read it", 0.0
        )

    def _not_answering(self, subject: str, message: str, seconds: float) -> ReadResult:
        backoff = self._backoff.get(subject)
        since = time.time() if backoff is None else backoff.since
        return ReadResult(
            None, NotAnswering(message, since, self._partial_results.get(subject)), seconds
        )

    def _is_backing_off(self, subject: str) -> bool:
        backoff = self._backoff.get(subject)
        if backoff is None:
            return False
        # While a worker is stuck in the driver, a second one would only get stuck beside it.
        return time.monotonic() < backoff.retry_at or not (
            backoff.stuck_worker is None or backoff.stuck_worker.has_exited()
        )

    def _send(self, requests: list[ReadRequest]) -> ReaderWorker:
        if self._worker is None:
            self._worker = self._start()
        self._worker.send(requests)
        return self._worker

    def _stop_worker(self) -> ReaderWorker | None:
        """Stop the worker; return it if it cannot be killed."""
        worker, self._worker = self._worker, None
        return worker if worker is not None and not worker.terminate() else None


def _to_result(outcome: str, value: Any, seconds: float) -> ReadResult:
    if outcome == "ok":
        return ReadResult(value, None, seconds)
    return ReadResult(None, _ERRORS[outcome](value), seconds)


def fork_worker() -> ProcessWorker:
    """Start a worker as a fork: cheap, for a process with one thread."""
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
    requests, results, progress = os.pipe(), os.pipe(), os.pipe()
    # -P and no empty path: a module in the current folder must not be imported for one of ours.
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "fleet_smi.node.reader_worker"],
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
