"""One thread for work that may block: a shared disk, a driver. Never a second while it hangs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")


class BlockingWorker:
    """Runs one job at a time; its thread starts with the first and ends with `close`.

    The thread is a daemon: one that hangs in the kernel cannot be ended, and must not keep
    the program from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: _Job | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a job that was given up has still not come back."""
        return self._last is not None and not self._last.is_over

    async def call(self, job: Callable[[], _T], timeout_seconds: float) -> _T:
        """What the job returns; raise `TimeoutError` when it, or the one before, takes too long."""
        if self.is_stuck:
            raise TimeoutError
        if self._thread is None:
            # A queue of its own: one that was let go of while it hung may still read the last.
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(
                target=_work, args=(self._jobs,), name=self._name, daemon=True
            )
            self._thread.start()
        self._last = _Job(job)
        self._jobs.put(self._last)
        async with asyncio.timeout(timeout_seconds):
            result: _T = await self._last.future
            return result

    def close(self) -> None:
        """Let the thread end, once it has nothing to do."""
        if self._thread is not None:
            self._jobs.put(None)
            if not self.is_stuck:
                self._thread.join()
            self._thread = None


class _Job:
    """Work and whoever waits for it, who may be gone when it is over, and their loop too."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.is_over = False
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._work = work

    def run(self) -> None:
        try:
            result, failure = self._work(), None
        except Exception as error:  # noqa: BLE001  # handed to whoever waits for it
            result, failure = None, error
        self.is_over = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.future.get_loop().call_soon_threadsafe(self._settle, result, failure)

    def _settle(self, result: Any, failure: Exception | None) -> None:
        if self.future.cancelled():
            return
        if failure is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(failure)


def _work(jobs: "SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.run()
