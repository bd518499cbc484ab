"""The reader: a child process that asks the machine, so that a hung driver hangs only it.

A driver call that never returns sits in the kernel and cannot be interrupted; whoever made
it cannot exit. So every reading is done by a child over pipes, against a deadline. One that
misses it is killed. One that cannot even be killed is left alone, and its subject is not
asked again while it lives; the other subjects are asked through a new child.

All subjects of a look are one request and one answer: a sample costs one exchange, however
many subjects it has. How far it has come, and which devices it has met, the child marks in a
third pipe. So a slow driver is told from a hung one, it is known who is to blame, and the
GPUs behind a hung driver are still known by name. The child (`reading.py`) runs bindings only,
while the parent imports the rest. In an agent the first child is a thread (`inside.py`).
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
_SLOWEST_SECONDS = 30.0


class ReadResult(NamedTuple):
    """What a binding read, or its error, and the seconds that took."""

    value: Any
    error: CollectError | None
    seconds: float


class SubjectBackoff(NamedTuple):
    """A subject that did not answer: since when, until when it is left alone, and by whom stuck."""

    since: float
    retry_at: float
    stuck_worker: "ReaderWorker | None"


class ReaderWorker(Protocol):
    """Whoever asks the machine for us: may be slow, may hang, may die."""

    def send(self, requests: Sequence[ReadRequest]) -> None:
        """Ask, without waiting."""

    def receive(self, deadline: float) -> RawResults:
        """The next answer; raise `TimeoutError` at the deadline, `EOFError` if it ended.

        After a `TimeoutError` one may go on waiting for the same answer.
        """

    def read_progress(self) -> list[tuple[str, Any]]:
        """The marks that were made since this was last asked."""

    def has_exited(self) -> bool:
        """Whether another may ask in its place."""

    def detach(self) -> None:
        """One whom nobody else talks to ends by itself."""

    def terminate(self) -> bool:
        """End it as far as that can be done; say whether it is gone."""


class ProcessWorker:
    """One reader process and the pipes to it."""

    def __init__(self, pid: int, requests_fd: int, results_fd: int, progress_fd: int) -> None:
        self.pid = pid
        self.requests_fd = requests_fd
        self.results_fd = results_fd
        self.progress_fd = progress_fd
        os.set_blocking(progress_fd, False)
        # Not `select`, which cannot wait for a descriptor above 1023.
        self._buffer = self._heard = b""
        self._poll = select.poll()
        self._poll.register(results_fd, select.POLLIN)

    def send(self, requests: Sequence[ReadRequest]) -> None:
        data = marshal.dumps(list(requests))
        with contextlib.suppress(OSError):  # it has ended: the missing answer will say so
            os.write(self.requests_fd, len(data).to_bytes(4, "big") + data)

    def receive(self, deadline: float) -> RawResults:
        self._fill(4, deadline)
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        self._fill(size, deadline)
        data, self._buffer = self._buffer[4:size], self._buffer[size:]
        look: RawResults = marshal.loads(data)
        return look

    def read_progress(self) -> list[tuple[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            self._heard += os.read(self.progress_fd, _PIPE_BYTES)
        marks = []
        while len(self._heard) >= 4:
            size = 4 + int.from_bytes(self._heard[:4], "big")
            if len(self._heard) < size:
                break
            marks.append(marshal.loads(self._heard[4:size]))
            self._heard = self._heard[size:]
        return marks

    def has_exited(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True

    def detach(self) -> None:
        """Close the pipes; a child that nobody else talks to ends by itself."""
        for pipe in (self.requests_fd, self.results_fd, self.progress_fd):
            os.close(pipe)

    def terminate(self) -> bool:
        """Close the pipes and kill it; say whether it is gone."""
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
    """Asks the subjects of a look, through as many children as that takes."""

    def __init__(self, start_worker: Callable[[], ReaderWorker]) -> None:
        self._start = start_worker
        self._child: ReaderWorker | None = None
        self._posted: list[ReadRequest] = []
        self._resting: dict[str, SubjectBackoff] = {}
        self._begun = ""
        self._met: dict[str, dict[Any, Any]] = {}

    def preload(self, subject: str) -> None:
        """Let the child load the binding now: for the driver's that is most of the wait."""
        self._send([(subject, None)])

    def prefetch(self, requests: Sequence[ReadRequest]) -> None:
        """Ask ahead, without waiting; `ask` with the same requests takes the answer."""
        self._posted = [request for request in requests if not self._rests(request[0])]
        self._send(self._posted)

    def read(
        self, requests: Sequence[ReadRequest], timeout_seconds: float, total_timeout_seconds: float
    ) -> list[ReadResult]:
        """One answer a request; what does not answer is given up for the sake of the rest."""
        answers: dict[str, ReadResult] = {}
        left = [request for request in requests if not self._rests(request[0])]
        if self._posted and self._posted != left:
            self.close()  # asked ahead for something else: that answer is of no use
        until = time.monotonic() + total_timeout_seconds
        patience = timeout_seconds
        while left and (seconds := min(patience, until - time.monotonic())) > 0:
            answers |= self._exchange(left, seconds)
            left = [request for request in left if request[0] not in answers]
            patience = max(patience / 3, 0.1)
        return [answers.get(subject) or self._unanswered(subject) for subject, _ in requests]

    def close(self) -> None:
        """End the child, if it can be ended."""
        self._posted = []
        self._end_child()

    def detach(self) -> None:
        """Let go of a child that is another process's: in a fork of the one that started it."""
        child, self._child = self._child, None
        self._posted = []
        if child is not None:
            child.detach()

    def _exchange(self, requests: list[ReadRequest], seconds: float) -> dict[str, ReadResult]:
        """The answers to all requests, or the failure of the one that stopped the child."""
        since, child = time.time(), self._child
        if not self._posted or child is None:
            child = self._send(requests)
        self._posted = []
        try:
            raw = self._wait(child, seconds)
        except (TimeoutError, EOFError) as stop:
            asked = [subject for subject, _ in requests]
            culprit = self._begun if self._begun in asked else asked[0]
            return {culprit: self._failed(culprit, stop, since, seconds)}
        pairs = zip(requests, raw, strict=True)
        answers = {subject: _answered(*answer) for (subject, _), answer in pairs}
        for subject in answers:
            self._resting.pop(subject, None)
        if any(isinstance(answer.error, DriverMismatch) for answer in answers.values()):
            self.close()  # a new child loads the new library
        return answers

    def _wait(self, child: ReaderWorker, seconds: float) -> RawResults:
        """The answer, as long as the child comes on within so many seconds: slow is not hung."""
        now = time.monotonic()
        give_up, last = now + seconds, now + _SLOWEST_SECONDS
        while True:
            try:
                raw = child.receive(min(give_up, time.monotonic() + seconds / 6))
            except TimeoutError:
                now = time.monotonic()
                if self._hear(child) and now < last:
                    give_up = now + seconds
                elif now >= give_up:
                    raise
            except EOFError:
                self._hear(child)
                raise
            else:
                self._hear(child)
                return raw

    def _hear(self, child: ReaderWorker) -> bool:
        """Whether the child has come on since this was last asked."""
        marks = child.read_progress()
        for subject, found in marks:
            self._begun = subject
            if found is not None:
                self._met.setdefault(subject, {}).update(found)
        return bool(marks)

    def _failed(self, subject: str, stop: Exception, since: float, seconds: float) -> ReadResult:
        stuck = self._end_child()
        if isinstance(stop, EOFError):
            return ReadResult(None, ReadFailed("the reader process died"), 0.0)
        before = self._resting.get(subject)
        retry_at = time.monotonic() + _RETRY_SECONDS
        self._resting[subject] = SubjectBackoff(before.since if before else since, retry_at, stuck)
        return self._silent(subject, f"no answer within {seconds:.2g} s", seconds)

    def _unanswered(self, subject: str) -> ReadResult:
        rests = subject in self._resting
        return self._silent(subject, "still no answer" if rests else "no time was left to ask", 0.0)

    def _silent(self, subject: str, words: str, seconds: float) -> ReadResult:
        rest = self._resting.get(subject)
        since = time.time() if rest is None else rest.since
        return ReadResult(None, NotAnswering(words, since, self._met.get(subject)), seconds)

    def _rests(self, subject: str) -> bool:
        rest = self._resting.get(subject)
        if rest is None:
            return False
        return time.monotonic() < rest.retry_at or not (
            rest.stuck_worker is None or rest.stuck_worker.has_exited()
        )

    def _send(self, requests: list[ReadRequest]) -> ReaderWorker:
        if self._child is None:
            self._child = self._start()
        self._child.send(requests)
        return self._child

    def _end_child(self) -> ReaderWorker | None:
        """The child, if it would not die."""
        child, self._child = self._child, None
        return child if child is not None and not child.terminate() else None


def _answered(outcome: str, value: Any, seconds: float) -> ReadResult:
    if outcome == "ok":
        return ReadResult(value, None, seconds)
    return ReadResult(None, _ERRORS[outcome](value), seconds)


def fork_worker() -> ProcessWorker:
    """A reader as a copy of this process: cheap, for a process with one thread."""
    requests, answers, marks = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        for ours in (requests[1], answers[0], marks[0]):
            os.close(ours)
        _die_with_parent()
        serve(requests[0], answers[1], marks[1])
    for theirs in (requests[0], answers[1], marks[1]):
        os.close(theirs)
    return ProcessWorker(pid, requests[1], answers[0], marks[0])


def _die_with_parent() -> None:
    """However the command ends, a reader that hangs must not stay behind.

    Only for a fork: the kernel counts the thread that started the child as its parent, and in
    somebody's program that thread may end before the program does.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn_worker() -> ProcessWorker:
    """A reader as a program of its own: for a process with threads, or with CUDA in it."""
    requests, answers, marks = os.pipe(), os.pipe(), os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "fleet_smi.node.reader_worker"],
        {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, requests[0], 0),
            (os.POSIX_SPAWN_DUP2, answers[1], 1),
            (os.POSIX_SPAWN_DUP2, marks[1], 2),
        ],
    )
    for theirs in (requests[0], answers[1], marks[1]):
        os.close(theirs)
    return ProcessWorker(pid, requests[1], answers[0], marks[0])
