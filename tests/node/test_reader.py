"""The reader: timeouts, backoff, hung and dead workers, and what they leave behind."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import (
    DriverMismatch,
    NotAnswering,
    NotPresent,
    ReadFailed,
    StillReading,
)
from fleet_smi.node import reader as module
from fleet_smi.node.reader import Deadlines, Reader, ReadResult
from fleet_smi.node.reader_process import ProcessWorker, fork_worker, spawn_worker
from fleet_smi.node.reader_types import ReadTimeouts
from fleet_smi.node.reader_worker import ReadRequest
from fleet_smi.node.thread_reader import ThreadWorker
from sim.scenario import Scenario, SimGpu
from tests.machines import SimulatedMachine, wait_until

HOST: ReadRequest = ("host", {"root": "/"})
NETWORK: ReadRequest = ("network", {"root": "/"})
NVIDIA: ReadRequest = ("nvidia", {"root": "/", "traffic": False})
HUNG = Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"})


def read(reader: Reader, *requests: ReadRequest, timeout_seconds: float = 10.0) -> list[ReadResult]:
    return reader.read(requests, ReadTimeouts(timeout_seconds, 2 * timeout_seconds))


def value(reader: Reader, request: ReadRequest) -> Any:
    (answer,) = read(reader, request)
    assert answer.error is None
    return answer.value


def since(answer: ReadResult) -> float | None:
    assert isinstance(answer.error, NotAnswering)
    return answer.error.since


def children() -> set[int]:
    found = set[int]()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=[fork_worker, spawn_worker, ThreadWorker], ids=["fork", "spawn", "inside"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    made = Reader(request.param)
    yield made
    made.close()


@pytest.fixture(params=[fork_worker, spawn_worker], ids=["fork", "spawn"])
def outside(request: pytest.FixtureRequest) -> Iterator[Reader]:
    made = Reader(request.param)
    yield made
    made.close()


def test_results_are_in_the_order_of_the_requests(reader: Reader) -> None:
    host, network = read(reader, HOST, NETWORK)
    assert host.value["hostname"] == os.uname().nodename
    assert isinstance(network.value, list)
    assert 0 <= host.seconds < 10


def test_a_prefetched_result_is_used(reader: Reader) -> None:
    reader.preload("host")
    reader.prefetch([HOST, NETWORK])
    host, _ = read(reader, HOST, NETWORK)
    assert "hostname" in host.value


def test_a_read_other_than_the_prefetched_one_is_done_again(reader: Reader) -> None:
    reader.prefetch([HOST])
    assert isinstance(value(reader, NETWORK), list)
    assert "hostname" in value(reader, HOST)


def test_pids_of_earlier_subjects_are_passed_to_processes(
    machine: SimulatedMachine,
) -> None:
    from sim.scenario import SimProcess

    machine.set_scenario(SimGpu(processes=[SimProcess(pid=os.getpid(), memory=1)]))
    reader = Reader(spawn_worker)
    _, people = read(reader, NVIDIA, ("processes", {"root": "/", "pids": None}))
    assert people.value[os.getpid()]["uid"] == os.getuid()
    reader.close()


def test_an_absent_subject_is_reported_by_its_error(reader: Reader, tmp_path: Path) -> None:
    (amd,) = read(reader, ("amd", {"root": str(tmp_path)}))
    assert isinstance(amd.error, NotPresent)
    assert "no AMD GPU" in str(amd.error)


def test_a_bug_in_a_binding_fails_that_reading_alone(reader: Reader) -> None:
    wrong, right = read(reader, ("host", {"no_such_argument": 1}), NETWORK)
    assert isinstance(wrong.error, ReadFailed)
    assert "bug" in str(wrong.error)
    assert right.error is None


def test_closing_leaves_no_child_and_no_descriptor(outside: Reader) -> None:
    before, opened = children(), descriptors()
    value(outside, HOST)
    assert len(children() - before) == 1
    outside.close()
    assert children() - before == set()
    assert descriptors() == opened


def test_it_can_be_used_again_after_closing(reader: Reader) -> None:
    value(reader, HOST)
    reader.close()
    assert "hostname" in value(reader, HOST)


def test_a_child_that_dies_fails_one_reading_and_is_replaced(outside: Reader) -> None:
    before = children()
    value(outside, HOST)
    (child,) = children() - before
    os.kill(child, 9)
    dead, alive = read(outside, HOST, NETWORK)
    assert isinstance(dead.error, ReadFailed)
    assert "died" in str(dead.error)
    assert alive.error is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_hung_subject_is_abandoned_and_the_others_are_read(
    machine: SimulatedMachine, place: int
) -> None:
    machine.set_scenario(HUNG)
    reader, before = Reader(spawn_worker, Deadlines(3.0, 3.0)), children()
    value(reader, HOST)
    requests = [HOST, NETWORK]
    requests.insert(place, NVIDIA)
    names = [name for name, _ in requests]
    results = dict(zip(names, read(reader, *requests, timeout_seconds=9.0), strict=True))
    assert isinstance(results["nvidia"].error, NotAnswering)
    assert "no answer within 3 s" in str(results["nvidia"].error)
    assert results["host"].error is None
    assert results["network"].error is None
    # The one that hangs may still answer; the other reads what is left.
    assert len(children() - before) == 2
    reader.close()
    assert children() == before


def test_a_slow_initialisation_is_awaited_by_its_own_worker(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "slow=6000"}))
    started: list[ProcessWorker] = []

    def start() -> ProcessWorker:
        started.append(spawn_worker())
        return started[-1]

    reader = Reader(start, Deadlines(call=30.0, initialisation=60.0))
    value(reader, HOST)
    slow, host = reader.read([NVIDIA, HOST], ReadTimeouts(2.0, 60.0))
    assert isinstance(slow.error, StillReading)
    assert "s so far" in str(slow.error)
    assert host.error is None
    again: list[ReadResult] = [slow]

    def answered() -> bool:
        again[:] = reader.read([NVIDIA, HOST], ReadTimeouts(2.0, 60.0))
        return again[0].error is None

    wait_until(answered)
    assert len(again[0].value["devices"]) == 1
    # It was not begun anew: the worker that has waited for the driver goes on.
    assert reader._worker is started[0]
    assert len(started) == 2
    reader.close()


def test_a_listener_learns_what_is_waited_for(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "slow=2500"}))
    heard: list[str | None] = []
    reader = Reader(spawn_worker)
    reader.on_wait = lambda step, _: heard.append(step)
    (answer,) = reader.read([NVIDIA], ReadTimeouts())
    assert answer.error is None
    assert any("the NVIDIA driver is being initialised" in (step or "") for step in heard)
    assert heard[-1] is None
    reader.close()


def test_a_slow_subject_is_awaited_while_it_makes_progress(machine: SimulatedMachine) -> None:
    slow = SimGpu(faults={"PowerUsage": "slow=400"})
    machine.set_scenario(Scenario(gpus=[slow, slow, slow, slow]))
    reader = Reader(spawn_worker)
    value(reader, HOST)
    (answer,) = reader.read([NVIDIA], ReadTimeouts(1.0, 1.0))
    assert answer.error is None
    assert answer.seconds > 1.5
    reader.close()


def test_results_read_before_a_hang_are_returned(machine: SimulatedMachine) -> None:
    hung = SimGpu(faults={"PowerUsage": "never"})
    machine.set_scenario(Scenario(gpus=[SimGpu(uuid="GPU-a"), hung, SimGpu()]))
    reader = Reader(spawn_worker, Deadlines(3.0, 3.0))
    value(reader, HOST)
    for timeout_seconds in (3.0, 60.0):  # the second time it does not wait
        (answer,) = read(reader, NVIDIA, timeout_seconds=timeout_seconds)
        assert isinstance(answer.error, NotAnswering)
        assert answer.error.partial_result["count"] == 3
        assert answer.error.partial_result[0]["uuid"] == "GPU-a"
        assert 2 not in answer.error.partial_result
    reader.close()


def test_a_hung_subject_keeps_the_time_of_its_hang_until_it_answers(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.set_scenario(HUNG)
    reader = Reader(spawn_worker, Deadlines(0.5, 0.5))
    (first,) = read(reader, NVIDIA, timeout_seconds=60)
    (resting,) = read(reader, NVIDIA, timeout_seconds=60)  # returns immediately
    assert since(first) == since(resting)
    # After a while the hung worker is replaced by one that hangs as well.
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    wait_until(lambda: since(read(reader, NVIDIA)[0]) is not None and bool(reader._backoff))
    (again,) = read(reader, NVIDIA)
    assert since(again) == since(first)
    machine.set_scenario(SimGpu())
    wait_until(lambda: read(reader, NVIDIA)[0].error is None)
    assert not reader._backoff
    reader.close()


class UnkillableChild(ProcessWorker):
    """A child in uninterruptible sleep: no signal ends it until the test lets it go."""

    freed = False

    def terminate(self) -> bool:
        super().terminate()
        return False

    def has_exited(self) -> bool:
        return self.freed


def test_while_a_child_cannot_be_killed_no_other_reads_its_subject(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[UnkillableChild] = []

    def start() -> ProcessWorker:
        made = spawn_worker()
        started.append(
            UnkillableChild(made.pid, made.requests_fd, made.results_fd, made.progress_fd)
        )
        return started[-1]

    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    machine.set_scenario(HUNG)
    reader = Reader(start, Deadlines(0.5, 0.5))
    wait_until(lambda: since(read(reader, NVIDIA)[0]) is not None and not reader._slow)
    machine.set_scenario(SimGpu())
    for _ in range(3):
        assert since(read(reader, NVIDIA)[0]) is not None
    assert len(started) == 1
    assert "hostname" in value(reader, HOST)
    assert len(started) == 2
    started[0].freed = True
    assert len(value(reader, NVIDIA)["devices"]) == 1
    reader.close()
    for child in started:
        ProcessWorker.has_exited(child)  # reap it: the test only pretended that it was still alive


def test_after_a_mismatch_a_new_child_loads_the_new_library(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(init="mismatch"))
    reader, before = Reader(spawn_worker), children()
    (mismatch,) = read(reader, NVIDIA)
    assert isinstance(mismatch.error, DriverMismatch)
    assert children() == before
    machine.set_scenario(SimGpu())
    assert len(value(reader, NVIDIA)["devices"]) == 1
    reader.close()


def test_readers_of_two_threads_are_independent() -> None:
    answers: list[str] = []

    def look() -> None:
        reader = Reader(spawn_worker)
        answers.extend(value(reader, HOST)["hostname"] for _ in range(20))
        reader.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [os.uname().nodename] * 80
