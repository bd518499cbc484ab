"""The reader in a thread: a hung thread is abandoned, and a process replaces it.

Each case runs in its own process: a hung thread can only be ended with its process.
"""

import subprocess
import sys
import threading

from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_types import ReadTimeouts
from fleet_smi.node.thread_reader import ThreadWorker
from sim.scenario import Scenario, SimGpu
from tests.machines import SimulatedMachine, wait_until

_BEGIN = """
import sys
from pathlib import Path
from fleet_smi.errors import NotAnswering
from fleet_smi.node.thread_reader import ThreadWorker, thread_then_process
from fleet_smi.node.reader import Deadlines, Reader
from fleet_smi.node.reader_process import ProcessWorker
from fleet_smi.node.reader_types import ReadTimeouts

HOST, NVIDIA = ("host", {"root": "/"}), ("nvidia", {"root": "/", "traffic": False})
reader = Reader(thread_then_process(), Deadlines(3.0, 3.0))
"""
_AFTER_A_HANG = """
hung, host = reader.read([NVIDIA, HOST], ReadTimeouts(3.0, 30.0))
assert isinstance(hung.error, NotAnswering), hung
assert host.error is None, host
assert isinstance(reader._worker, ProcessWorker), reader._worker
print("hung", flush=True)
sys.stdin.readline()
while (answer := reader.read([NVIDIA], ReadTimeouts(10.0, 10.0))[0]).error is not None:
    pass
assert isinstance(reader._worker, ThreadWorker), reader._worker
print("devices", len(answer.value["devices"]), flush=True)
"""
_AFTER_A_MISMATCH = """
(mismatch,) = reader.read([NVIDIA], ReadTimeouts(10.0, 10.0))
print(type(mismatch.error).__name__, flush=True)
sys.stdin.readline()
(answer,) = reader.read([NVIDIA], ReadTimeouts(10.0, 10.0))
assert isinstance(reader._worker, ProcessWorker), reader._worker
print("devices", len(answer.value["devices"]), flush=True)
"""


def _played(machine: SimulatedMachine, script: str, *scenarios: Scenario) -> list[str]:
    """Run a program through these scenarios and return the lines it prints."""
    first, *others = scenarios
    machine.set_scenario(first)
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN + script + "reader.close()"],
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        lines = [running.stdout.readline().strip()]
        for scenario in others:
            machine.set_scenario(scenario)
            running.stdin.write("\n")
            running.stdin.flush()
            lines.append(running.stdout.readline().strip())
        running.kill()
    return lines


def test_during_a_hang_a_process_reads_the_other_subjects_and_then_the_thread_again(
    machine: SimulatedMachine,
) -> None:
    hung = Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"})
    answers = Scenario(gpus=[SimGpu(), SimGpu()])
    assert _played(machine, _AFTER_A_HANG, hung, answers) == ["hung", "devices 2"]


def test_after_a_mismatch_a_process_loads_the_new_library(machine: SimulatedMachine) -> None:
    lines = _played(
        machine, _AFTER_A_MISMATCH, Scenario(init="mismatch"), Scenario(gpus=[SimGpu()])
    )
    assert lines == ["DriverMismatch", "devices 1"]


def test_closing_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    reader = Reader(ThreadWorker)
    reader.read([("host", {"root": "/"})], ReadTimeouts(10.0, 10.0))
    assert len(set(threading.enumerate()) - before) == 1
    reader.close()
    wait_until(lambda: set(threading.enumerate()) <= before)
