"""One thread for work that may block: a shared disk, a driver. Never a second while it hangs."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")
_Job = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]


class Worker:
    """Runs one job at a time; its thread starts with the first and ends with `close`.

    The thread is a daemon: one that hangs in the kernel cannot be ended, and must not keep
    the program from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: asyncio.Future[Any] | None = None

    @property
    def hangs(self) -> bool:
        """Whether a job that was given up has still not come back."""
        return self._running is not None and not self._running.done()

    async def call(self, job: Callable[[], _T], timeout_seconds: float) -> _T:
        """What the job returns; raise `TimeoutError` when it, or the one before, takes too long."""
        if self.hangs:
            raise TimeoutError
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        self._running = loop.create_future()
        self._jobs.put((loop, self._running, job))
        async with asyncio.timeout(timeout_seconds):
            # Shielded: who gives up waiting must still see when the job comes back.
            result: _T = await asyncio.shield(self._running)
            return result

    def close(self) -> None:
        """Let the thread end, once it has nothing to do."""
        if self._thread is not None:
            self._jobs.put(None)
            if not self.hangs:
                self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, call = job
            try:
                done: Any = call()
                failure = None
            except Exception as error:  # noqa: BLE001  # handed to whoever waits for it
                done, failure = None, error
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(_settle, future, done, failure)


def _settle(future: asyncio.Future[Any], done: Any, failure: Exception | None) -> None:
    if future.cancelled():
        return
    if failure is None:
        future.set_result(done)
    else:
        future.set_exception(failure)
        future.exception()  # seen, even if nobody waits any more
