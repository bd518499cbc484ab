"""The reader: a child process that asks the machine, so that a hung driver hangs only it.

A driver call that never returns sits in the kernel and cannot be interrupted; whoever made
it cannot exit. So every reading is done by a child over a pipe, with a deadline. One that
misses it is killed. One that cannot even be killed is left alone, and its subject is not
asked again while it lives; other subjects are asked through a new child.

The child runs bindings only, while the parent imports the rest: both cores work.
"""

import contextlib
import importlib
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable
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
    "network": ("network", "read"),
    "processes": ("procfs", "Processes"),
    "environment": ("environment", "read"),
}
"""Subject -> binding module and the function, or the class whose object is kept."""

Request = tuple[str, dict[str, Any] | None]
"""A subject and the arguments of its reading; without arguments it is only loaded."""


class Child:
    """One reader process and the two pipes to it."""

    def __init__(self, pid: int, requests: int, answers: int) -> None:
        self.pid = pid
        self.requests = requests
        self.answers = answers
        self._buffer = b""

    def post(self, request: Request) -> None:
        data = marshal.dumps(request)
        try:
            os.write(self.requests, len(data).to_bytes(4, "big") + data)
        except OSError:
            return  # it has ended: the missing answer will say so

    def answer(self, deadline: float) -> Any:
        """The next answer; raise `TimeoutError` at the deadline, `EOFError` if it ended."""
        size = int.from_bytes(self._take(4, deadline), "big")
        return marshal.loads(self._take(size, deadline))

    def _take(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise EOFError
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def is_gone(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True

    def end(self) -> bool:
        """Close the pipes and kill it; say whether it is gone."""
        for pipe in (self.requests, self.answers):
            os.close(pipe)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        until = time.monotonic() + _KILL_GRACE_SECONDS
        while not (gone := self.is_gone()) and time.monotonic() < until:
            select.select([], [], [], 0.001)
        return gone


class Rest(NamedTuple):
    """A subject that did not answer: since when, until when it is left alone, and by whom stuck."""

    since: float
    retry_at: float
    stuck: Child | None


class Reader:
    """Asks the subjects, each with a deadline, through as many children as that takes."""

    def __init__(self, start: Callable[[], Child]) -> None:
        self._start = start
        self._child: Child | None = None
        self._posted: list[Request] = []
        self._resting: dict[str, Rest] = {}

    def warm(self, subject: str) -> None:
        """Let the child load the binding now: for the driver's that is most of the wait."""
        self._send((subject, None))

    def post(self, subject: str, **arguments: Any) -> None:
        """Ask ahead, without waiting; `ask` in the same order and words takes the answer."""
        if not self._rests(subject):
            self._posted.append((subject, arguments))
            self._send((subject, arguments))

    def ask(self, subject: str, deadline_seconds: float, **arguments: Any) -> tuple[Any, float]:
        """What the binding read, and the seconds it took; raise its error, or `NotAnswering`."""
        if self._rests(subject):
            raise NotAnswering(f"{subject} is not answering", self._resting[subject].since)
        if self._posted and self._posted[0] != (subject, arguments):
            self.close()  # asked ahead for something else: those answers are of no use
        if not self._posted:
            self.post(subject, **arguments)
        since = time.time()
        try:
            outcome, value, seconds = self._answer(deadline_seconds)
        except TimeoutError:
            rest = self._rest(subject, since)
            raise NotAnswering(
                f"{subject} did not answer within {deadline_seconds:g} s", rest.since
            ) from None
        except EOFError:
            self._renew()
            raise ReadFailed(f"{subject}: the reader process died") from None
        del self._posted[0]
        if outcome == "ok":
            self._resting.pop(subject, None)
            return value, seconds
        if outcome == Mismatch.__name__:
            self.close()  # a new child loads the new library
        raise _ERRORS[outcome](value)

    def close(self) -> None:
        """End the child, if it can be ended."""
        self._posted.clear()
        self._end_child()

    def _send(self, request: Request) -> None:
        if self._child is None:
            self._child = self._start()
        self._child.post(request)

    def _answer(self, deadline_seconds: float) -> Any:
        if self._child is None:
            raise EOFError
        return self._child.answer(time.monotonic() + deadline_seconds)

    def _rest(self, subject: str, since: float) -> Rest:
        """Kill the child over this subject and leave the subject alone for a while."""
        before = self._resting.get(subject)
        stuck = self._end_child()
        retry_at = time.monotonic() + _RETRY_SECONDS
        rest = Rest(before.since if before else since, retry_at, stuck)
        self._resting[subject] = rest
        self._renew()
        return rest

    def _rests(self, subject: str) -> bool:
        rest = self._resting.get(subject)
        if rest is None:
            return False
        return time.monotonic() < rest.retry_at or not (rest.stuck is None or rest.stuck.is_gone())

    def _renew(self) -> None:
        """A new child for what is still to be answered, without what stopped the old one."""
        self._end_child()
        del self._posted[0]
        for request in self._posted:
            self._send(request)

    def _end_child(self) -> Child | None:
        """The child, if it would not die."""
        child, self._child = self._child, None
        return child if child is not None and not child.end() else None


def fork() -> Child:
    """A reader as a copy of this process: cheap, for a process with one thread."""
    requests, answers = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(requests[1])
        os.close(answers[0])
        _serve(requests[0], answers[1])
    os.close(requests[0])
    os.close(answers[1])
    return Child(pid, requests[1], answers[0])


def spawn() -> Child:
    """A reader as a program of its own: for a process with threads, or with CUDA in it."""
    requests, answers = os.pipe(), os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "fleet_smi.node.reader"],
        {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, requests[0], 0),
            (os.POSIX_SPAWN_DUP2, answers[1], 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
    )
    os.close(requests[0])
    os.close(answers[1])
    return Child(pid, requests[1], answers[0])


def _serve(requests: int, answers: int) -> NoReturn:
    """Answer requests until there are no more; never returns."""
    try:
        _let_go_of_terminal(keep=(requests, answers))
        readings: dict[str, Callable[..., Any]] = {}
        while size := os.read(requests, 4):
            subject, arguments = marshal.loads(_exactly(requests, int.from_bytes(size, "big")))
            if arguments is None:
                _warm(readings, subject)
                continue
            data = marshal.dumps(_reading(readings, subject, arguments))
            _write_all(answers, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


def _let_go_of_terminal(keep: tuple[int, int]) -> None:
    # Whoever waits for our parent's output must not wait for us: we may hang for ever.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        if descriptor not in keep:
            os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
        data += os.read(pipe, size - len(data))
    return data


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


if __name__ == "__main__":
    _serve(os.dup(0), os.dup(1))
