"""The reader's own side: what asks the machine, in a child process or in a thread."""

import contextlib
import importlib
import marshal
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from fleet_smi.errors import CollectError

BINDINGS: dict[str, tuple[str, str]] = {
    "nvidia": ("nvml", "NvmlReader"),
    "nvidia_smi": ("nvidia_smi", "read"),
    "nvidia_kernel": ("nvidia_kernel", "read"),
    "amd": ("amdgpu", "read"),
    "amd_smi": ("amd_smi", "read"),
    "rocm_smi": ("rocm_smi", "read"),
    "intel": ("intel_gpu", "read"),
    "xpu_smi": ("xpu_smi", "read"),
    "host": ("procfs", "HostReader"),
    "network": ("network", "NetworkReader"),
    "processes": ("procfs", "ProcessReader"),
    "environment": ("environment", "read"),
}
"""Subject -> binding module and the function, or the class whose object is kept."""

ReadRequest = tuple[str, dict[str, Any] | None]
"""A subject and the arguments of its reading; without arguments it is only loaded.

`pids=None` stands for those that the subjects before it in the same look have found.
"""


RawResults = list[tuple[str, Any, float]]
"""For each request the outcome (`ok`, or the name of an error), the value, and the seconds."""

ProgressCallback = Callable[[str, Any], None]
"""Tells that a subject was begun, or what it has found so far."""


class BindingRunner:
    """The bindings that were asked so far, each loaded when it is first asked for."""

    def __init__(self, on_progress: ProgressCallback) -> None:
        self._mark = on_progress
        self._loaded: dict[str, Callable[..., Any]] = {}

    def run(self, requests: Sequence[ReadRequest]) -> RawResults:
        """One answer for each request that has arguments; the others are only loaded."""
        answers: RawResults = []
        pids: set[int] = set()
        listed_at = 0.0
        for subject, arguments in requests:
            self._mark(subject, None)
            if arguments is None:
                self._warm(subject)
                continue
            if arguments.get("pids", ()) is None:
                arguments = {**arguments, "pids": tuple(sorted(pids)), "listed_at": listed_at}  # noqa: PLW2901
            answers.append(self._read(subject, arguments))
            value = answers[-1][1]
            if isinstance(value, dict) and value.get("pids"):
                pids.update(value["pids"])
                listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        return answers

    def _read(self, subject: str, arguments: dict[str, Any]) -> tuple[str, Any, float]:
        started = time.perf_counter()
        try:
            value = self._reading(subject)(**arguments)
            outcome = "ok"
        except CollectError as error:
            outcome, value = type(error).__name__, str(error)
        except Exception as error:  # noqa: BLE001  # a bug in one binding must not blind the node
            outcome, value = "ReadFailed", f"bug: {error!r}"
        return outcome, value, time.perf_counter() - started

    def _reading(self, subject: str) -> Callable[..., Any]:
        if subject not in self._loaded:
            module, name = BINDINGS[subject]
            found = getattr(importlib.import_module(f"fleet_smi.node.bindings.{module}"), name)
            if isinstance(found, type):
                made: Any = found()
                if hasattr(made, "on_progress"):
                    made.on_progress = partial(self._mark, subject)
                found = made.read
            self._loaded[subject] = found
        return self._loaded[subject]

    def _warm(self, subject: str) -> None:
        with contextlib.suppress(Exception):  # whatever is wrong is said when it is asked for
            self._reading(subject)


def serve(requests_fd: int, results_fd: int, progress_fd: int) -> NoReturn:
    """Answer requests until there are no more; never returns."""
    try:
        _let_go_of_terminal()
        os.set_blocking(progress_fd, False)
        readings = BindingRunner(partial(_mark, progress_fd))
        while size := os.read(requests_fd, 4):
            asked = marshal.loads(_exactly(requests_fd, int.from_bytes(size, "big")))
            if read := readings.run(asked):
                data = marshal.dumps(read)
                _write_all(results_fd, len(data).to_bytes(4, "big") + data)
    finally:
        os._exit(0)


def _let_go_of_terminal() -> None:
    # Whoever waits for our parent's output must not wait for us: we may hang for ever.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _mark(marks: int, subject: str, found: Any) -> None:
    """Write a mark into the pipe; never wait for that."""
    data = marshal.dumps((subject, found))
    with contextlib.suppress(BlockingIOError):
        os.write(marks, len(data).to_bytes(4, "big") + data)


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
    serve(os.dup(0), os.dup(1), os.dup(2))
