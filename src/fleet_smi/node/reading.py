"""The reader's own side: what runs in the child process that asks the machine."""

import contextlib
import importlib
import marshal
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from fleet_smi.errors import CollectError

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


def mark(marks: int, subject: str, found: Any) -> None:
    """Tell that a subject was begun, or what it has found so far; never wait for that."""
    data = marshal.dumps((subject, found))
    with contextlib.suppress(BlockingIOError):
        os.write(marks, len(data).to_bytes(4, "big") + data)


def serve(requests: int, answers: int, marks: int) -> NoReturn:
    """Answer requests until there are no more; never returns."""
    try:
        _let_go_of_terminal()
        os.set_blocking(marks, False)
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
        mark(marks, subject, None)
        if arguments is None:
            _warm(readings, subject, marks)
            continue
        if arguments.get("pids", ()) is None:
            arguments |= {"pids": tuple(sorted(pids)), "listed_at": listed_at}
        answers.append(_reading(readings, subject, arguments, marks))
        value = answers[-1][1]
        if isinstance(value, dict) and value.get("pids"):
            pids.update(value["pids"])
            listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    return answers


def _reading(
    readings: dict[str, Callable[..., Any]], subject: str, arguments: dict[str, Any], marks: int
) -> tuple[str, Any, float]:
    started = time.perf_counter()
    try:
        value = _reading_of(readings, subject, marks)(**arguments)
        outcome = "ok"
    except CollectError as error:
        outcome, value = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001  # a bug in one binding must not blind the node
        outcome, value = "ReadFailed", f"bug: {error!r}"
    return outcome, value, time.perf_counter() - started


def _reading_of(
    readings: dict[str, Callable[..., Any]], subject: str, marks: int
) -> Callable[..., Any]:
    if subject not in readings:
        module, name = READINGS[subject]
        found = getattr(importlib.import_module(f"fleet_smi.node.bindings.{module}"), name)
        if not isinstance(found, type):
            readings[subject] = found
            return readings[subject]
        made: Any = found()
        if hasattr(made, "tell"):
            made.tell = partial(mark, marks, subject)
        readings[subject] = made.read
    return readings[subject]


def _warm(readings: dict[str, Callable[..., Any]], subject: str, marks: int) -> None:
    with contextlib.suppress(Exception):  # whatever is wrong is said when it is asked for
        _reading_of(readings, subject, marks)


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
