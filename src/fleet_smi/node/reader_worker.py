"""The reader worker: runs the bindings on request, in a child process or in a thread."""

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
from fleet_smi.node.collectors import COLLECTORS

BINDINGS: dict[str, str] = {
    **{entry.name: entry.binding for entry in COLLECTORS},
    # Read by `doctor` alone, and no part of a snapshot.
    "environment": "environment:read",
    # Read by `capture` alone.
    "tool_outputs": "tool_outputs:read",
}
"""Subject -> `module:name` below `fleet_smi.node.bindings`."""

ReadRequest = tuple[str, dict[str, Any] | None]
"""A subject and the arguments of its binding; without arguments it is only loaded.

`pids=None` means the pids that the subjects before it in the same batch have found.
"""


RawResults = list[tuple[str, Any, float]]
"""For each request the outcome (`ok`, or the name of an error), the value, and the seconds."""

ProgressCallback = Callable[[str, Any], None]
"""Receives a subject when it is started, and again with what it has found so far."""


class BindingRunner:
    """Runs bindings; each is loaded at its first request and keeps its state after that."""

    def __init__(self, on_progress: ProgressCallback) -> None:
        self._on_progress = on_progress
        self._loaded: dict[str, Callable[..., Any]] = {}

    def run(self, requests: Sequence[ReadRequest]) -> RawResults:
        """Return one result for each request that has arguments; only load the others."""
        results: RawResults = []
        pids: set[int] = set()
        listed_at = 0.0
        for subject, arguments in requests:
            self._on_progress(subject, None)
            if arguments is None:
                self._preload(subject)
                continue
            if arguments.get("pids", ()) is None:
                arguments = {**arguments, "pids": tuple(sorted(pids)), "listed_at": listed_at}  # noqa: PLW2901
            results.append(self._read(subject, arguments))
            value = results[-1][1]
            if isinstance(value, dict) and value.get("pids"):
                pids.update(value["pids"])
                # The clock of start times in /proc: a process that started later has reused a pid.
                listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        return results

    def _read(self, subject: str, arguments: dict[str, Any]) -> tuple[str, Any, float]:
        started = time.perf_counter()
        try:
            value = self._binding(subject)(**arguments)
            outcome = "ok"
        except CollectError as error:
            outcome, value = type(error).__name__, str(error)
        except Exception as error:  # noqa: BLE001  # a bug in one binding must not blind the node
            outcome, value = "ReadFailed", f"bug: {error!r}"
        return outcome, value, time.perf_counter() - started

    def _binding(self, subject: str) -> Callable[..., Any]:
        if subject not in self._loaded:
            self._loaded[subject] = load_binding(subject, partial(self._on_progress, subject))
        return self._loaded[subject]

    def _preload(self, subject: str) -> None:
        # The error of a binding that cannot be loaded is reported when it is to be read.
        with contextlib.suppress(Exception):
            self._binding(subject)


def load_binding(
    subject: str, on_progress: Callable[[Any], None] | None = None
) -> Callable[..., Any]:
    """Import a subject's binding; return the function that reads it.

    A class is instantiated once: its object keeps handles open and counters between reads.
    """
    module, _, name = BINDINGS[subject].partition(":")
    binding = getattr(importlib.import_module(f"fleet_smi.node.bindings.{module}"), name)
    if isinstance(binding, type):
        stateful: Any = binding()
        if on_progress is not None and hasattr(stateful, "on_progress"):
            stateful.on_progress = on_progress
        binding = stateful.read
    read: Callable[..., Any] = binding
    return read


def serve(requests_fd: int, results_fd: int, progress_fd: int) -> NoReturn:
    """Answer requests until their pipe is closed, then exit the process."""
    try:
        _detach_from_terminal()
        os.set_blocking(progress_fd, False)
        runner = BindingRunner(partial(_write_progress, progress_fd))
        # The parent writes length and data at once, so the four bytes are never split.
        while size := os.read(requests_fd, 4):
            requests = marshal.loads(_read_exactly(requests_fd, int.from_bytes(size, "big")))
            if results := runner.run(requests):
                data = marshal.dumps(results)
                _write_all(results_fd, len(data).to_bytes(4, "big") + data)
    finally:
        # Not `sys.exit`: a fork must not run its parent's exit handlers or flush its buffers.
        os._exit(0)


def _detach_from_terminal() -> None:
    # A program that waits for the end of our parent's output must not wait for this process,
    # which may hang in a driver for ever.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    # Ctrl-C reaches the whole process group; the parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _write_progress(progress_fd: int, subject: str, partial_result: Any) -> None:
    """Write a progress message; drop it where the pipe is full, as reading must not wait."""
    # Smaller than PIPE_BUF, so it is written as a whole or not at all.
    data = marshal.dumps((subject, partial_result))
    with contextlib.suppress(BlockingIOError):
        os.write(progress_fd, len(data).to_bytes(4, "big") + data)


def _read_exactly(pipe: int, size: int) -> bytes:
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


def main() -> NoReturn:
    """Serve on the standard descriptors, as a program of its own."""
    # Copies: `serve` points the standard descriptors to /dev/null.
    serve(os.dup(0), os.dup(1), os.dup(2))
