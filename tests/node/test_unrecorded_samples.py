"""Samples that a hub has not recorded are in the spool: a killed agent loses none of them."""

import errno
import os
from pathlib import Path

import pytest

from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.spool import Spool
from tests.node.test_buffer import drained, left_by_a_killed_agent, sample, sequences, stored


def test_while_the_hub_cannot_record_every_sample_is_in_few_segments(tmp_path: Path) -> None:
    buffer = ReportBuffer(Spool(str(tmp_path / "spool")))
    for sequence in range(1, 251):
        buffer.add(sample(sequence))
        assert sequences(buffer.next_batch()) == [sequence]  # nothing is sent twice
        buffer.acknowledge(min(2, sequence), recorded=sequence < 5)
        if sequence > 4:
            assert left_by_a_killed_agent(tmp_path)[0] == 3
    assert left_by_a_killed_agent(tmp_path) == list(range(3, 251))
    assert len(stored(tmp_path)) == 3
    buffer.requeue()  # the hub has room again
    buffer.add(sample(251))
    assert drained(buffer) == list(range(3, 252))
    assert stored(tmp_path) == []
    buffer.close()


def test_a_batch_that_a_busy_hub_refuses_survives_a_kill(tmp_path: Path) -> None:
    buffer = ReportBuffer(Spool(str(tmp_path / "spool")))
    buffer.add(sample(1))
    buffer.next_batch()
    buffer.acknowledge(None, recorded=False)
    for sequence in (2, 3):
        buffer.add(sample(sequence))
        buffer.next_batch()
        buffer.return_batch()
        assert left_by_a_killed_agent(tmp_path) == list(range(1, sequence + 1))
    assert drained(buffer) == [2, 3]
    buffer.close()


def test_samples_that_are_not_recorded_stay_in_memory_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, room = ReportBuffer(Spool(str(tmp_path / "spool"))), [2]
    write = os.write

    def write_some(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= 1
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_some)
    for sequence in range(1, 5):
        buffer.add(sample(sequence))
        buffer.next_batch()
        buffer.acknowledge(None, recorded=False)
    assert left_by_a_killed_agent(tmp_path) == [1, 2]
    room[0] = 100
    buffer.requeue()
    assert drained(buffer) == [1, 2, 3, 4]
    buffer.close()
