"""Limits of the processes of one node."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_smi.model.process_limit import (
    MAX_COMMAND_CHARACTERS,
    MAX_PROCESSES_PER_DEVICE,
    MAX_PROCESSES_PER_NODE,
    limit_processes,
)
from fleet_smi.model.snapshot import Gpu, Instance, Process
from tests.builders import gpu, instance, process, snapshot


def many(count: int, **fields: Any) -> tuple[Process, ...]:
    return tuple(process(1000 + number, **fields) for number in range(count))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 400), max_size=40), st.lists(st.integers(0, 400), max_size=7))
def test_what_is_not_listed_is_counted_and_no_gpu_in_use_looks_free(
    counts: list[int], in_instances: list[int]
) -> None:
    instances = tuple(
        instance(number, processes=many(count)) for number, count in enumerate(in_instances)
    )
    gpus = [gpu(index, processes=many(count)) for index, count in enumerate(counts)]
    sent = snapshot(*gpus, gpu(100, instances=instances))
    shown = limit_processes(sent)
    devices: list[Gpu | Instance] = [*shown.gpus[:-1], *shown.gpus[-1].instances]
    for count, device in zip([*counts, *in_instances], devices, strict=True):
        assert len(device.processes or ()) + device.more_processes == count
        assert bool(device.processes) == bool(count)
        assert len(device.processes or ()) <= MAX_PROCESSES_PER_DEVICE
    assert sum(len(device.processes or ()) for device in devices) <= MAX_PROCESSES_PER_NODE
    assert limit_processes(shown) is shown


def test_the_largest_of_each_user_stay_then_the_largest_then_the_oldest() -> None:
    small = process(1, user="carol", gpu_memory_bytes=1)
    display = process(2, user="root", kind="graphics", gpu_memory_bytes=10**10)
    large = process(3, user="alice", gpu_memory_bytes=10**9)
    old = process(4, user="alice", gpu_memory_bytes=100, started_at=1.0)
    young = many(MAX_PROCESSES_PER_DEVICE, user="alice", gpu_memory_bytes=100, started_at=2.0)
    shown = limit_processes(snapshot(gpu(processes=(*young, old, display, large, small))))
    listed = {each.pid for each in shown.gpus[0].processes or ()}
    assert {1, 2, 3, 4} <= listed
    assert shown.gpus[0].more_processes == 4
    assert limit_processes(shown) is shown


def test_long_command_lines_share_what_there_is_for_all() -> None:
    processes = (process(1, command="short"), *many(100, command="x" * 4096))
    shown = limit_processes(snapshot(gpu(processes=processes))).gpus[0].processes or ()
    commands = [each.command or "" for each in shown]
    assert commands[0] == "short"
    assert commands[1].endswith("x…")
    assert sum(map(len, commands)) <= MAX_COMMAND_CHARACTERS
