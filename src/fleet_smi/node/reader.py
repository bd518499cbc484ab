"""The reader: a child process that asks the machine, so that a hung driver hangs only it.

A driver call that never returns sits in the kernel and cannot be interrupted; whoever made
it cannot exit. So every reading is done by a child over pipes, against a deadline. One that
misses it is killed. One that cannot even be killed is left alone, and its subject is not
asked again while it lives; the other subjects are asked through a new child.

All subjects of a look are one request and one answer: a sample costs one exchange, however
many subjects it has. How far the child has come it marks in a third pipe, which is only read
to find out who is to blame. It runs bindings only, while the parent imports the rest.
"""

import contextlib
import importlib
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from fleet_smi.errors import CollectError, Mismatch, NotAnswering, NotPresent, ReadFailed

_ERRORS: dict[str, type[CollectError]] = {
    kind.__name__: kind for kind in (NotPresent, ReadFailed, Mismatch, NotAnswering)
}
_KILL_GRACE_SECONDS = 0.2
_RETRY_SECONDS = 30.0
READINGS: dict[str, tuple[str, str]] = {
    "nvidia": ("nvml", "Nvml"),
    "nvidia_smi": ("nvidia_smi", "read"),
    "nvidia_kernel": ("nvidia_kernel", "read"),
    "amd": ("amdgpu", "read"),
    "intel": ("intel_gpu", "read"),
    "host": ("procfs", "Host"),
    "network": ("network", "Network"),
    "processes": ("procfs", "Processes"),
    "environment": ("environment", "read"),
}
"""Subject -> binding module and the function, or the class whose object is kept."""

Request = tuple[str, dict[str, Any] | None]
"""A subject and the arguments of its reading; without arguments it is only loaded.

`pids=None` stands for those that the subjects before it in the same look have found.
"""


class Answer(NamedTuple):
    """What a binding read, or its error, and the seconds that took."""

    value: Any
    error: CollectError | None
    seconds: float


class Rest(NamedTuple):
    """A subject that did not answer: since when, until when it is left alone, and by whom stuck."""

    since: float
    retry_at: float
    stuck: "Child | None"


class Child:
    """One reader process and the pipes to it."""

    def __init__(self, pid: int, requests: int, answers: int, marks: int) -> None:
        self.pid = pid
        self.requests = requests
        self.answers = answers
        self.marks = marks
        os.set_blocking(marks, False)
        # Not `select`, which cannot wait for a descriptor above 1023.
        self._poll = select.poll()
        self._poll.register(answers, select.POLLIN)

    def post(self, requests: Sequence[Request]) -> None:
        data = marshal.dumps(list(requests))
        with contextlib.suppress(OSError):  # it has ended: the missing answer will say so
            os.write(self.requests, len(data).to_bytes(4, "big") + data)

    def answer(self, deadline: float) -> Any:
        """The next answer; raise `TimeoutError` at the deadline, `EOFError` if it ended."""
        data = self._take(4, deadline)
        size = int.from_bytes(data[:4], "big")
        data = data[4:] + self._take(size - len(data[4:]), deadline)
        return marshal.loads(data)

    def progress(self) -> int:
        """How many subjects were begun since this was last asked."""
        try:
            return len(os.read(self.marks, 4096))
        except BlockingIOError:
            return 0

    def is_gone(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True

    def let_go(self) -> None:
        """Close the pipes; a child that nobody else talks to ends by itself."""
        for pipe in (self.requests, self.answers, self.marks):
            os.close(pipe)

    def end(self) -> bool:
        """Close the pipes and kill it; say whether it is gone."""
        self.let_go()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        until = time.monotonic() + _KILL_GRACE_SECONDS
        while not (gone := self.is_gone()) and time.monotonic() < until:
            time.sleep(0.001)
        return gone

    def _take(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not self._poll.poll(left * 1000):
                raise TimeoutError
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise EOFError
            data += more
        return data


class Reader:
    """Asks the subjects of a look, through as many children as that takes."""

    def __init__(self, start: Callable[[], Child]) -> None:
        self._start = start
        self._child: Child | None = None
        self._posted: list[Request] = []
        self._resting: dict[str, Rest] = {}

    def warm(self, subject: str) -> None:
        """Let the child load the binding now: for the driver's that is most of the wait."""
        self._send([(subject, None)])

    def post(self, requests: Sequence[Request]) -> None:
        """Ask ahead, without waiting; `ask` with the same requests takes the answer."""
        self._posted = [request for request in requests if not self._rests(request[0])]
        self._send(self._posted)

    def ask(
        self, requests: Sequence[Request], patience_seconds: float, whole_seconds: float
    ) -> list[Answer]:
        """One answer a request; what does not answer is given up for the sake of the rest."""
        answers: dict[str, Answer] = {}
        left = [request for request in requests if not self._rests(request[0])]
        if self._posted and self._posted != left:
            self.close()  # asked ahead for something else: that answer is of no use
        until = time.monotonic() + whole_seconds
        patience = patience_seconds
        while left and (seconds := min(patience, until - time.monotonic())) > 0:
            answers |= self._exchange(left, seconds)
            left = [request for request in left if request[0] not in answers]
            patience = max(patience / 3, 0.1)
        return [answers.get(subject) or self._unanswered(subject) for subject, _ in requests]

    def close(self) -> None:
        """End the child, if it can be ended."""
        self._posted = []
        self._end_child()

    def abandon(self) -> None:
        """Let go of a child that is another process's: in a fork of the one that started it."""
        child, self._child = self._child, None
        self._posted = []
        if child is not None:
            child.let_go()

    def _exchange(self, requests: list[Request], seconds: float) -> dict[str, Answer]:
        """The answers to all requests, or the failure of the one that stopped the child."""
        since, child = time.time(), self._child
        if not self._posted or child is None:
            child = self._send(requests)
        self._posted = []
        try:
            raw = child.answer(time.monotonic() + seconds)
        except (TimeoutError, EOFError) as stop:
            culprit = requests[max(0, child.progress() - 1)][0]
            return {culprit: self._failed(culprit, stop, since, seconds)}
        child.progress()
        pairs = zip(requests, raw, strict=True)
        answers = {subject: _answered(*answer) for (subject, _), answer in pairs}
        for subject in answers:
            self._resting.pop(subject, None)
        if any(isinstance(answer.error, Mismatch) for answer in answers.values()):
            self.close()  # a new child loads the new library
        return answers

    def _failed(self, subject: str, stop: Exception, since: float, seconds: float) -> Answer:
        stuck = self._end_child()
        if isinstance(stop, EOFError):
            return Answer(None, ReadFailed("the reader process died"), 0.0)
        before = self._resting.get(subject)
        retry_at = time.monotonic() + _RETRY_SECONDS
        self._resting[subject] = Rest(before.since if before else since, retry_at, stuck)
        words = f"did not answer within {seconds:.2g} s"
        return Answer(None, NotAnswering(words, self._resting[subject].since), seconds)

    def _unanswered(self, subject: str) -> Answer:
        rest = self._resting.get(subject)
        if rest is not None:
            return Answer(None, NotAnswering("still not answering", rest.since), 0.0)
        return Answer(None, NotAnswering("no time was left to ask", time.time()), 0.0)

    def _rests(self, subject: str) -> bool:
        rest = self._resting.get(subject)
        if rest is None:
            return False
        return time.monotonic() < rest.retry_at or not (rest.stuck is None or rest.stuck.is_gone())

    def _send(self, requests: list[Request]) -> Child:
        if self._child is None:
            self._child = self._start()
        self._child.post(requests)
        return self._child

    def _end_child(self) -> Child | None:
        """The child, if it would not die."""
        child, self._child = self._child, None
        return child if child is not None and not child.end() else None


def _answered(outcome: str, value: Any, seconds: float) -> Answer:
    if outcome == "ok":
        return Answer(value, None, seconds)
    return Answer(None, _ERRORS[outcome](value), seconds)


def fork() -> Child:
    """A reader as a copy of this process: cheap, for a process with one thread."""
    requests, answers, marks = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        for ours in (requests[1], answers[0], marks[0]):
            os.close(ours)
        _serve(requests[0], answers[1], marks[1])
    for theirs in (requests[0], answers[1], marks[1]):
        os.close(theirs)
    return Child(pid, requests[1], answers[0], marks[0])


def spawn() -> Child:
    """A reader as a program of its own: for a process with threads, or with CUDA in it."""
    requests, answers, marks = os.pipe(), os.pipe(), os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "fleet_smi.node.reader"],
        {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, requests[0], 0),
            (os.POSIX_SPAWN_DUP2, answers[1], 1),
            (os.POSIX_SPAWN_DUP2, marks[1], 2),
        ],
    )
    for theirs in (requests[0], answers[1], marks[1]):
        os.close(theirs)
    return Child(pid, requests[1], answers[0], marks[0])


def _serve(requests: int, answers: int, marks: int) -> NoReturn:
    """Answer requests until there are no more; never returns."""
    try:
        _let_go_of_terminal()
        readings: dict[str, Callable[..., Any]] = {}
        while size := os.read(requests, 4):
            asked = marshal.loads(_exactly(requests, int.from_bytes(size, "big")))
            if read := _look(readings, asked, marks):
                data = marshal.dumps(read)
                _write_all(answers, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


def _let_go_of_terminal() -> None:
    # Whoever waits for our parent's output must not wait for us: we may hang for ever.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _look(
    readings: dict[str, Callable[..., Any]], asked: list[Request], marks: int
) -> list[tuple[str, Any, float]]:
    answers: list[tuple[str, Any, float]] = []
    pids: set[int] = set()
    listed_at = 0.0
    for subject, arguments in asked:
        if arguments is None:
            _warm(readings, subject)
            continue
        if arguments.get("pids", ()) is None:
            arguments |= {"pids": tuple(sorted(pids)), "listed_at": listed_at}
        os.write(marks, b".")
        answers.append(_reading(readings, subject, arguments))
        value = answers[-1][1]
        if isinstance(value, dict) and value.get("pids"):
            pids.update(value["pids"])
            listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    return answers


def _reading(
    readings: dict[str, Callable[..., Any]], subject: str, arguments: dict[str, Any]
) -> tuple[str, Any, float]:
    started = time.perf_counter()
    try:
        value = _reading_of(readings, subject)(**arguments)
        outcome = "ok"
    except CollectError as error:
        outcome, value = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001  # a bug in one binding must not blind the node
        outcome, value = "ReadFailed", f"bug: {error!r}"
    return outcome, value, time.perf_counter() - started


def _reading_of(readings: dict[str, Callable[..., Any]], subject: str) -> Callable[..., Any]:
    if subject not in readings:
        module, name = READINGS[subject]
        found = getattr(importlib.import_module(f"fleet_smi.node.bindings.{module}"), name)
        readings[subject] = found().read if isinstance(found, type) else found
    return readings[subject]


def _warm(readings: dict[str, Callable[..., Any]], subject: str) -> None:
    with contextlib.suppress(Exception):  # whatever is wrong is said when it is asked for
        _reading_of(readings, subject)


def _exactly(pipe: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(pipe, size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


if __name__ == "__main__":
    _serve(os.dup(0), os.dup(1), os.dup(2))
