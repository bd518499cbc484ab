"""Limits of the processes of one node: some of each GPU stay listed, the rest is counted.

Whatever a node sends is stored by the hub and sent to every viewer. Listed are the processes that
show who uses a GPU: the largest of each user, then the largest of all, the older one of equals.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Protocol, TypeVar

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Instance, Process, Snapshot

MAX_PROCESSES_PER_DEVICE = 128
MAX_PROCESSES_PER_NODE = 512
"""A GPU or instance with processes always has one of them listed, or it would look free."""
MAX_COMMAND_CHARACTERS = 128 << 10
"""Of all command lines of a node together."""
_Device = TypeVar("_Device", Gpu, Instance)


class _DeviceChange(Protocol):
    def __call__(self, device: _Device) -> _Device: ...


def limit_processes(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its processes and their command lines within the limits."""
    counts, command_characters = _measure(snapshot)
    if sum(counts) > MAX_PROCESSES_PER_NODE or max(counts, default=0) > MAX_PROCESSES_PER_DEVICE:
        share = _fair_share(counts)
        snapshot = _change_devices(snapshot, lambda device: _limited(device, share))
    if command_characters <= MAX_COMMAND_CHARACTERS:
        return snapshot
    return _with_short_commands(snapshot)


def more_processes_text(count: int) -> str:
    """Return the line below a list of processes that is not complete."""
    return f"and {count} more {'process' if count == 1 else 'processes'}"


def _measure(snapshot: Snapshot) -> tuple[list[int], int]:
    """Return the processes of each device that has some, and the length of their commands."""
    # One plain loop, because it runs for every report: generators take three times as long.
    counts, command_characters = [], 0
    for gpu in snapshot.gpus:
        devices: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances) if gpu.instances else (gpu,)
        for device in devices:
            if device.processes:
                counts.append(len(device.processes))
                for process in device.processes:
                    if process.command:
                        command_characters += len(process.command)
    return counts, command_characters


def _devices(snapshot: Snapshot) -> Iterator[Gpu | Instance]:
    for gpu in snapshot.gpus:
        yield gpu
        yield from gpu.instances


def _fair_share(counts: list[int]) -> int:
    """Return the largest number per device with which the node is within its limit."""
    shares = range(1, MAX_PROCESSES_PER_DEVICE + 1)
    fitting = bisect_right(
        shares, MAX_PROCESSES_PER_NODE, key=lambda share: sum(min(count, share) for count in counts)
    )
    return max(1, fitting)


def _change_devices(snapshot: Snapshot, change: _DeviceChange) -> Snapshot:
    """Return the snapshot with every GPU and instance replaced by what `change` returns."""
    gpus = [
        replace(change(gpu), instances=tuple([change(each) for each in gpu.instances]))
        for gpu in snapshot.gpus
    ]
    return replace(snapshot, gpus=tuple(gpus))


def _limited(device: _Device, share: int) -> _Device:
    processes = device.processes or ()
    if len(processes) <= share:
        return device
    more = device.more_processes + len(processes) - share
    return replace(device, processes=_select_processes(processes, share), more_processes=more)


def _select_processes(processes: tuple[Process, ...], count: int) -> tuple[Process, ...]:
    """Return the largest of each user, then the largest of all, in the order of the report."""
    by_size = sorted(range(len(processes)), key=lambda at: _size_key(processes[at]))
    users = set()
    first: list[int] = []
    others: list[int] = []
    for at in by_size:
        process = processes[at]
        user = (process.kind, process.user or process.uid)
        (others if user in users else first).append(at)
        users.add(user)
    return tuple([processes[at] for at in sorted([*first, *others][:count])])


def _size_key(process: Process) -> tuple[bool, int, float, int]:
    # Programs that compute before displays: a GPU that is used must not look free.
    return (
        process.kind == "graphics",
        -(process.gpu_memory_bytes or 0),
        process.started_at or 0.0,
        process.pid,
    )


def _with_short_commands(snapshot: Snapshot) -> Snapshot:
    lengths = [
        len(process.command)
        for device in _devices(snapshot)
        for process in device.processes or ()
        if process.command
    ]
    if sum(lengths) <= MAX_COMMAND_CHARACTERS:
        return snapshot
    limit = MAX_COMMAND_CHARACTERS // len(lengths)
    return _change_devices(snapshot, lambda device: _shortened(device, limit))


def _shortened(device: _Device, limit: int) -> _Device:
    if not device.processes:
        return device
    processes = [
        replace(process, command=process.command[: max(0, limit - 1)] + "…")
        if process.command and len(process.command) > limit
        else process
        for process in device.processes
    ]
    return replace(device, processes=tuple(processes))
