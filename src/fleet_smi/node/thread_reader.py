"""In-process reader: a worker in a thread, at half the memory of a process.

For the agent, which runs for ever on other people's machines. A thread cannot be killed: one
that hangs is abandoned, and the next worker is a process (`reader_process.spawn_worker`).
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from typing import Any

from fleet_smi.node.linux_only import require_linux
from fleet_smi.node.reader import ReaderWorker
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.reader_worker import BindingRunner, RawResults, ReadRequest

_GRACE_SECONDS = 0.2


class ThreadWorker:
    """A `ReaderWorker` with a thread instead of a process and queues instead of pipes."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[Sequence[ReadRequest] | None] = SimpleQueue()
        self._results: SimpleQueue[RawResults] = SimpleQueue()
        self._progress: deque[tuple[str, Any]] = deque()
        # A daemon: a thread that hangs in a driver must not keep the agent from exiting.
        self._thread = threading.Thread(target=self._serve, name="reader", daemon=True)
        self._thread.start()

    def send(self, requests: Sequence[ReadRequest]) -> None:
        self._requests.put(requests)

    def receive(self, deadline: float) -> RawResults:
        """Return the next results; raise `TimeoutError` at the deadline."""
        try:
            return self._results.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise TimeoutError from None

    def read_progress(self) -> list[tuple[str, Any]]:
        """Return the progress messages since the last call."""
        # As many as there are now: the thread may append more meanwhile, which needs no lock.
        return [self._progress.popleft() for _ in range(len(self._progress))]

    def has_exited(self) -> bool:
        """Whether it has ended or left the kernel, inside which a second one would hang too."""
        # "D", uninterruptible sleep: inside a system call that no signal ends.
        return not self._thread.is_alive() or _thread_state(self._thread.native_id) != b"D"

    def detach(self) -> None:
        """Let the thread end when it is idle."""
        self._requests.put(None)

    def terminate(self) -> bool:
        """Let the thread end, wait briefly, and return whether it is gone."""
        self.detach()
        self._thread.join(_GRACE_SECONDS)
        return self.has_exited()

    def _serve(self) -> None:
        runner = BindingRunner(lambda *message: self._progress.append(message))
        while (requests := self._requests.get()) is not None:
            if results := runner.run(requests):
                self._results.put(results)


def thread_then_process() -> Callable[[], ReaderWorker]:
    """Return a function that starts a thread at the first call and a process at each later one.

    The later calls come after a hang, or when the driver's library was replaced on disk.
    """
    starters: Iterator[Callable[[], ReaderWorker]] = chain([ThreadWorker], repeat(spawn_worker))

    def start() -> ReaderWorker:
        require_linux()
        return next(starters)()

    return start


def _thread_state(thread_id: int | None) -> bytes:
    try:
        stat = os.open(f"/proc/self/task/{thread_id}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(stat, 4096).rpartition(b") ")[2][:1]
    finally:
        os.close(stat)
