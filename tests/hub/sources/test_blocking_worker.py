"""The blocking worker: results, timeouts, and never a second thread while one hangs."""

import asyncio
import threading

import pytest

from fleet_smi.hub.sources.blocking_worker import BlockingWorker
from tests.machines import wait_until


class Hang:
    """Work that hangs until it is let go; counts how often it was begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = threading.Event()

    def __call__(self) -> str:
        self.begun += 1
        self.let_go.wait(20)
        return "at last"


def threads() -> int:
    return sum(thread.name == "test" for thread in threading.enumerate())


def test_results_and_exceptions_reach_the_caller() -> None:
    def broken() -> None:
        raise OSError(5, "Input/output error")

    async def scenario() -> None:
        worker = BlockingWorker("test")
        assert await worker.call(lambda: 42, 5.0) == 42
        with pytest.raises(OSError, match="Input/output"):
            await worker.call(broken, 5.0)
        assert await worker.call(lambda: threading.current_thread().name, 5.0) == "test"
        worker.close()

    asyncio.run(scenario())
    assert threads() == 0


def test_no_second_job_starts_while_one_hangs() -> None:
    hang = Hang()

    async def scenario() -> None:
        worker = BlockingWorker("test")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await worker.call(hang, 0.02)
        assert (hang.begun, threads(), worker.is_stuck) == (1, 1, True)
        hang.let_go.set()
        wait_until(lambda: not worker.is_stuck)
        assert await worker.call(lambda: "fine", 5.0) == "fine"
        worker.close()

    asyncio.run(scenario())
    assert threads() == 0


def test_a_job_that_ends_after_its_loop_is_closed_unblocks_the_worker() -> None:
    hang, worker = Hang(), BlockingWorker("test")

    async def given_up() -> None:
        with pytest.raises(TimeoutError):
            await worker.call(hang, 0.02)
        worker.close()

    asyncio.run(given_up())
    asyncio.run(given_up())
    hang.let_go.set()
    wait_until(lambda: not worker.is_stuck)

    async def again() -> str:
        try:
            return await worker.call(lambda: "fine", 5.0)
        finally:
            worker.close()

    assert asyncio.run(again()) == "fine"
    wait_until(lambda: threads() == 0)


def test_a_cancelled_call_lets_its_job_finish() -> None:
    hang, worker = Hang(), BlockingWorker("test")

    async def scenario() -> None:
        waiting = asyncio.ensure_future(worker.call(hang, 5.0))
        while not hang.begun:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert worker.is_stuck
        hang.let_go.set()
        wait_until(lambda: not worker.is_stuck)
        worker.close()

    asyncio.run(scenario())
    wait_until(lambda: threads() == 0)
