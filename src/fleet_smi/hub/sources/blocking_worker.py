"""A worker thread for calls that may hang (a shared disk, a driver), with a timeout.

While a call hangs no second thread is started: they would pile up in the kernel.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from fleet_smi.hub.async_timeout import timeout

_T = TypeVar("_T")


class BlockingWorker:
    """Runs one job at a time; its thread starts with the first job and ends with `close`.

    The thread is a daemon: one that hangs in the kernel cannot be ended, and must not keep
    the process from exiting.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: _Job | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether the last job, which timed out, is still running."""
        return self._last is not None and not self._last.is_done

    async def call(self, job: Callable[[], _T], timeout_seconds: float) -> _T:
        """The result of a job; raise `TimeoutError` if it, or the one before it, hangs."""
        if self.is_stuck:
            raise TimeoutError
        if self._thread is None:
            # A new queue: a thread that hung when it was closed may still read the old one.
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(
                target=_run_jobs, args=(self._jobs,), name=self._name, daemon=True
            )
            self._thread.start()
        self._last = _Job(job)
        self._jobs.put(self._last)
        async with timeout(timeout_seconds):
            result: _T = await self._last.future
            return result

    def close(self) -> None:
        """End the thread; one that hangs is abandoned."""
        if self._thread is not None:
            self._jobs.put(None)
            # Joining a thread that hangs would hang the event loop.
            if not self.is_stuck:
                self._thread.join()
            self._thread = None


class _Job:
    """A call and the future of its result; its waiter, and even its loop, may be gone by then."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.is_done = False
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._work = work

    def run(self) -> None:
        try:
            result, failure = self._work(), None
        except Exception as error:  # noqa: BLE001  # raised again in the waiter
            result, failure = None, error
        # Before the result is passed on: the worker is free even if the waiter is gone.
        self.is_done = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.future.get_loop().call_soon_threadsafe(self._set_result, result, failure)

    def _set_result(self, result: Any, failure: Exception | None) -> None:
        if self.future.cancelled():  # by the timeout
            return
        if failure is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(failure)


def _run_jobs(jobs: "SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.run()
