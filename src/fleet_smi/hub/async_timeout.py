"""`asyncio.timeout`, also for Python 3.10, on which `--ssh` and `--dir` run without a hub."""

import asyncio
import sys

if sys.version_info >= (3, 11):
    timeout = asyncio.timeout
else:

    class timeout:  # noqa: N801  # named like the function that it stands in for
        """Cancels the body after some seconds, and raises `TimeoutError` in place of that."""

        def __init__(self, seconds: float) -> None:
            self._seconds = seconds
            self._is_expired = False

        async def __aenter__(self) -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # a coroutine runs in a task
            self._task = task
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

        async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
            self._timer.cancel()
            if self._is_expired and kind is asyncio.CancelledError:
                raise TimeoutError from None

        def _expire(self) -> None:
            self._is_expired = True
            self._task.cancel()
