"""The witness of a process group: a signal that it has, however late it runs, was for the group."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from fleet_smi.node.bindings.group_witness import GroupWitness
from tests.machines import wait_until

NUMBER = signal.SIGUSR1


@pytest.fixture
def witness() -> Iterator[GroupWitness]:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [NUMBER])
    found = GroupWitness([NUMBER])
    yield found
    found.close()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def child(witness: GroupWitness) -> int:
    pid: int = witness._pid  # nobody else needs to know it
    return pid


def is_stopped(pid: int) -> bool:
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


def test_a_signal_to_this_process_alone_is_not_seen(witness: GroupWitness) -> None:
    assert not witness.has_received(NUMBER)


def test_each_signal_to_the_group_is_seen_once(witness: GroupWitness) -> None:
    for _ in range(3):
        os.kill(child(witness), NUMBER)
        assert witness.has_received(NUMBER)
    assert not witness.has_received(NUMBER)


def test_a_witness_that_cannot_run_for_a_while_has_seen_it_all_the_same(
    witness: GroupWitness,
) -> None:
    # Stopped, as it is on a machine that is too busy to run it.
    os.kill(child(witness), signal.SIGSTOP)
    wait_until(lambda: is_stopped(child(witness)))
    os.kill(child(witness), NUMBER)
    later = Timer(0.3, os.kill, (child(witness), signal.SIGCONT))
    later.start()
    assert witness.has_received(NUMBER)
    later.join()
    assert not witness.has_received(NUMBER)
