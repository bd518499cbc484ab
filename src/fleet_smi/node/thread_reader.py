"""A reader in a thread of this process: half the memory of one that is a process of its own.

For the agent, which runs for ever on machines that are not ours. A thread cannot be killed:
one that hangs is left behind, and whoever is started after it is a process (`reader.spawn`).
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from typing import Any

from fleet_smi.node.reader_process import ReaderWorker, spawn_worker
from fleet_smi.node.reader_worker import BindingRunner, RawResults, ReadRequest

_GRACE_SECONDS = 0.2


class ThreadWorker:
    """What `reader.Child` is, with a thread in place of the process and queues for pipes."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[Sequence[ReadRequest] | None] = SimpleQueue()
        self._answers: SimpleQueue[RawResults] = SimpleQueue()
        self._marks: deque[tuple[str, Any]] = deque()
        self._thread = threading.Thread(target=self._serve, name="reader", daemon=True)
        self._thread.start()

    def send(self, requests: Sequence[ReadRequest]) -> None:
        self._requests.put(requests)

    def receive(self, deadline: float) -> RawResults:
        """The next answer; raise `TimeoutError` at the deadline."""
        try:
            return self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise TimeoutError from None

    def read_progress(self) -> list[tuple[str, Any]]:
        """The marks that were made since this was last asked."""
        return [self._marks.popleft() for _ in range(len(self._marks))]

    def has_exited(self) -> bool:
        """Whether it no longer sits in the kernel, where a second one would get stuck too."""
        return not self._thread.is_alive() or _state(self._thread.native_id) != b"D"

    def detach(self) -> None:
        """Let the thread end, once it has nothing to do."""
        self._requests.put(None)

    def terminate(self) -> bool:
        """Let it end and wait a moment for that; say whether it is gone."""
        self.detach()
        self._thread.join(_GRACE_SECONDS)
        return self.has_exited()

    def _serve(self) -> None:
        readings = BindingRunner(lambda subject, found: self._marks.append((subject, found)))
        while (asked := self._requests.get()) is not None:
            if answers := readings.run(asked):
                self._answers.put(answers)


def thread_then_process() -> Callable[[], ReaderWorker]:
    """Starts a thread; once that has hung, or the library is another, a process each time."""
    ways: Iterator[Callable[[], ReaderWorker]] = chain([ThreadWorker], repeat(spawn_worker))

    def start() -> ReaderWorker:
        return next(ways)()

    return start


def _state(thread_id: int | None) -> bytes:
    try:
        stat = os.open(f"/proc/self/task/{thread_id}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(stat, 4096).rpartition(b") ")[2][:1]
    finally:
        os.close(stat)
