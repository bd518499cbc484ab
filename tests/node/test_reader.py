"""The reader: deadlines, hung and dead children, and what is left behind."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.errors import Mismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.node import reader as module
from fleet_smi.node.reader import READINGS, Child, Reader, fork, spawn
from sim.scenario import Scenario, SimGpu
from tests.machines import Machine, wait_until


def children() -> set[int]:
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


@pytest.fixture(params=[fork, spawn], ids=["fork", "spawn"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    made = Reader(request.param)
    yield made
    made.close()


def test_it_answers_what_the_binding_reads(reader: Reader) -> None:
    raw, seconds = reader.ask("host", 5.0, root="/")
    assert raw["hostname"] == os.uname().nodename
    assert 0 <= seconds < 5


def test_answers_asked_for_ahead_come_in_their_order(reader: Reader) -> None:
    reader.warm("host")
    reader.post("host", root="/")
    reader.post("processes", root="/", pids=(os.getpid(),))
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]
    facts, _ = reader.ask("processes", 5.0, root="/", pids=(os.getpid(),))
    assert facts[os.getpid()]["uid"] == os.getuid()


def test_asking_for_something_else_than_was_asked_ahead_gives_that(reader: Reader) -> None:
    reader.post("host", root="/")
    assert isinstance(reader.ask("network", 5.0, root="/")[0], list)
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]


def test_a_subject_that_is_not_there_is_told_by_its_error(reader: Reader, tmp_path: Path) -> None:
    with pytest.raises(NotPresent, match="no AMD GPU"):
        reader.ask("amd", 5.0, root=str(tmp_path))


def test_a_bug_in_a_binding_fails_that_reading_alone(reader: Reader) -> None:
    with pytest.raises(ReadFailed, match="bug"):
        reader.ask("host", 5.0, no_such_argument=True)
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]


def test_closing_leaves_no_child_and_no_descriptor(reader: Reader) -> None:
    before, descriptors = children(), len(list(Path("/proc/self/fd").iterdir()))
    reader.ask("host", 5.0, root="/")
    assert len(children() - before) == 1
    reader.close()
    assert children() - before == set()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_it_can_be_used_again_after_closing(reader: Reader) -> None:
    reader.ask("host", 5.0, root="/")
    reader.close()
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]


def test_a_child_that_dies_fails_one_reading_and_is_replaced() -> None:
    reader, before = Reader(spawn), children()
    reader.ask("host", 5.0, root="/")
    (child,) = children() - before
    os.kill(child, 9)
    with pytest.raises(ReadFailed, match="died"):
        reader.ask("host", 5.0, root="/")
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]
    reader.close()


def test_a_hung_subject_is_given_up_at_its_deadline_and_others_go_on(machine: Machine) -> None:
    machine.play(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"}))
    reader, before = Reader(spawn), children()
    reader.post("nvidia", root="/", traffic=False)
    reader.post("host", root="/")
    with pytest.raises(NotAnswering) as hung:
        reader.ask("nvidia", 0.5, root="/", traffic=False)
    assert hung.value.since is not None
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]
    assert len(children() - before) == 1
    reader.close()


def test_a_hung_subject_rests_and_keeps_the_time_since_when(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.play(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"}))
    reader = Reader(spawn)
    with pytest.raises(NotAnswering) as first:
        reader.ask("nvidia", 0.5, root="/", traffic=False)
    with pytest.raises(NotAnswering) as resting:
        reader.ask("nvidia", 30.0, root="/", traffic=False)  # answers at once: nobody is asked
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    reader._resting["nvidia"] = reader._resting["nvidia"]._replace(retry_at=0.0)
    with pytest.raises(NotAnswering) as again:
        reader.ask("nvidia", 0.5, root="/", traffic=False)
    assert first.value.since == resting.value.since == again.value.since
    machine.play(SimGpu())
    raw, _ = reader.ask("nvidia", 10.0, root="/", traffic=False)
    assert len(raw["devices"]) == 1
    assert not reader._resting
    reader.close()


class UnkillableChild(Child):
    """A child in the state that no signal ends; it is gone when the test says so."""

    freed = False

    def end(self) -> bool:
        super().end()
        return False

    def is_gone(self) -> bool:
        return self.freed


def test_beside_a_child_that_cannot_be_killed_no_second_one_asks_that_subject(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[UnkillableChild] = []

    def start() -> Child:
        made = spawn()
        started.append(UnkillableChild(made.pid, made.requests, made.answers))
        return started[-1]

    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    machine.play(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"}))
    reader = Reader(start)
    with pytest.raises(NotAnswering):
        reader.ask("nvidia", 0.5, root="/", traffic=False)
    machine.play(SimGpu())
    for _ in range(3):
        with pytest.raises(NotAnswering):
            reader.ask("nvidia", 5.0, root="/", traffic=False)
    assert len(started) == 1
    assert "hostname" in reader.ask("host", 5.0, root="/")[0]
    assert len(started) == 2
    started[0].freed = True
    assert len(reader.ask("nvidia", 10.0, root="/", traffic=False)[0]["devices"]) == 1
    reader.close()
    for child in started:
        Child.is_gone(child)  # bury it: the test only pretended that it lived on


def test_after_a_mismatch_a_new_child_loads_the_new_library(machine: Machine) -> None:
    machine.play(Scenario(init="mismatch"))
    reader, before = Reader(spawn), children()
    with pytest.raises(Mismatch):
        reader.ask("nvidia", 10.0, root="/", traffic=False)
    assert children() == before
    machine.play(SimGpu())
    assert len(reader.ask("nvidia", 10.0, root="/", traffic=False)[0]["devices"]) == 1
    reader.close()


def test_the_reader_ends_when_nobody_asks_any_more() -> None:
    child = spawn()
    os.close(child.requests)
    wait_until(child.is_gone)
    os.close(child.answers)


def test_large_answers_arrive_whole(tmp_path: Path) -> None:
    # Larger than a pipe holds: the child must go on writing while we read.
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu 1 1 1 1 1 1 1 1\n")
    (tmp_path / "proc/meminfo").write_text("x" * 65_536)
    (tmp_path / "proc/loadavg").write_text("y" * 65_536)
    reader = Reader(spawn)
    raw, _ = reader.ask("host", 5.0, root=str(tmp_path))
    assert (len(raw["memory"]), len(raw["load"])) == (65_536, 65_536)
    reader.close()


def test_every_reading_has_a_binding() -> None:
    bindings = {path.stem for path in Path(module.__file__).parent.glob("bindings/*.py")}
    assert {binding for binding, _ in READINGS.values()} <= bindings


def test_two_threads_do_not_disturb_each_others_readers() -> None:
    answers: list[str] = []

    def ask() -> None:
        reader = Reader(spawn)
        answers.extend(reader.ask("host", 10.0, root="/")[0]["hostname"] for _ in range(20))
        reader.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [os.uname().nodename] * 80
