"""The figures of a snapshot: what moves from sample to sample, apart from what hardly does.

They are columns: all GPUs' values of one figure, in the order of the snapshot. Instances are listed
GPU by GPU; so are processes, those of a GPU before those of its instances. What is not a figure is
in `static_part.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Condition, Gpu, Instance, Process, Snapshot

Column = tuple[Any, ...]
"""The values of one figure, one for each GPU, instance or process."""
Columns = tuple[Column, ...]
"""One column for each field of the figures' struct, in its order."""


# The fields have the names, units and types that they have in the snapshot's own structs.
class GpuFigures(Struct, frozen=True, gc=False):
    """What moves of a GPU."""

    busy_percent: float | None = None
    memory_busy_percent: float | None = None
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    fan_percent: float | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    pcie_rx_bytes_per_second: int | None = None
    pcie_tx_bytes_per_second: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    ecc_corrected: int | None = None
    performance_state: str | None = None
    throttle_reasons: tuple[str, ...] | None = None
    nvlink_rx_bytes_per_second: int | None = None
    nvlink_tx_bytes_per_second: int | None = None


class InstanceFigures(Struct, frozen=True, gc=False):
    """What moves of a MIG instance."""

    memory_used_bytes: int | None = None
    busy_percent: float | None = None


class ProcessFigures(Struct, frozen=True, gc=False):
    """What moves of a process."""

    gpu_memory_bytes: int | None = None
    busy_percent: float | None = None
    cpu_percent: float | None = None
    host_memory_bytes: int | None = None
    condition: Condition | None = None


class HostFigures(Struct, frozen=True, gc=False):
    """What moves of the machine around the GPUs."""

    cpu_percent: float | None = None
    load_1_minute: float | None = None
    load_5_minutes: float | None = None
    load_15_minutes: float | None = None
    memory_used_bytes: int | None = None


class SnapshotFigures(Struct, frozen=True, kw_only=True, gc=False):
    """The figures of one snapshot, with its time and number; made by `figures_of`."""

    taken_at: float
    sequence: int
    host: Column
    gpus: Columns
    instances: Columns
    processes: Columns
    run_seconds: tuple[float, ...]

    def by_gpu(self) -> Iterator[GpuFigures]:
        """Yield the figures of each GPU."""
        return map(GpuFigures, *self.gpus)

    def by_instance(self) -> Iterator[InstanceFigures]:
        """Yield the figures of each instance."""
        return map(InstanceFigures, *self.instances)

    def by_process(self) -> Iterator[ProcessFigures]:
        """Yield the figures of each process."""
        return map(ProcessFigures, *self.processes)


class MemoryLimits(Struct, frozen=True, gc=False):
    """How much memory each GPU and instance can have in use; the same while the static part is."""

    gpus: Column
    instances: Column


GPU_FIELDS = GpuFigures.__struct_fields__
INSTANCE_FIELDS = InstanceFigures.__struct_fields__
PROCESS_FIELDS = ProcessFigures.__struct_fields__
HOST_FIELDS = HostFigures.__struct_fields__


def figures_of(snapshot: Snapshot, processes: Iterable[Process] | None = None) -> SnapshotFigures:
    """Return the figures of a snapshot; `processes`, if known, are those of `list_processes`."""
    gpus, host = snapshot.gpus, snapshot.host
    # Plain attribute access: half the time of `attrgetter`, and an agent does this every second.
    gpu_rows = [
        (
            gpu.busy_percent,
            gpu.memory_busy_percent,
            gpu.encoder_percent,
            gpu.decoder_percent,
            gpu.memory_used_bytes,
            gpu.temperature_celsius,
            gpu.memory_temperature_celsius,
            gpu.fan_percent,
            gpu.power_watts,
            gpu.energy_joules,
            gpu.sm_clock_mhz,
            gpu.memory_clock_mhz,
            gpu.pcie_rx_bytes_per_second,
            gpu.pcie_tx_bytes_per_second,
            gpu.pcie_generation,
            gpu.pcie_width,
            gpu.ecc_corrected,
            gpu.performance_state,
            gpu.throttle_reasons,
            gpu.nvlink_rx_bytes_per_second,
            gpu.nvlink_tx_bytes_per_second,
        )
        for gpu in gpus
    ]
    process_rows = [
        (
            process.gpu_memory_bytes,
            process.busy_percent,
            process.cpu_percent,
            process.host_memory_bytes,
            process.condition,
        )
        for process in (list_processes(gpus) if processes is None else processes)
    ]
    return SnapshotFigures(
        taken_at=snapshot.taken_at,
        sequence=snapshot.sequence,
        host=(
            host.cpu_percent,
            host.load_1_minute,
            host.load_5_minutes,
            host.load_15_minutes,
            host.memory_used_bytes,
        ),
        gpus=_columns(gpu_rows, len(GPU_FIELDS)),
        instances=_columns(
            [(each.memory_used_bytes, each.busy_percent) for each in list_instances(gpus)],
            len(INSTANCE_FIELDS),
        ),
        processes=_columns(process_rows, len(PROCESS_FIELDS)),
        run_seconds=tuple([run.seconds for run in snapshot.runs]),
    )


def memory_limits(snapshot: Snapshot) -> MemoryLimits:
    """Return the limits of the memory in use."""
    return MemoryLimits(
        tuple(map(_memory_limit, snapshot.gpus)),
        tuple(map(_memory_limit, list_instances(snapshot.gpus))),
    )


def with_figures(snapshot: Snapshot, figures: SnapshotFigures) -> Snapshot:
    """Return the snapshot with other figures, of as many GPUs, instances and processes."""
    changed = with_columns(
        snapshot,
        dict(zip(GPU_FIELDS, figures.gpus, strict=True)),
        dict(zip(INSTANCE_FIELDS, figures.instances, strict=True)),
        dict(zip(PROCESS_FIELDS, figures.processes, strict=True)),
    )
    return with_node_figures(
        changed, figures.taken_at, figures.sequence, figures.host, figures.run_seconds
    )


def with_node_figures(
    snapshot: Snapshot,
    taken_at: float,
    sequence: int,
    host: Column | None,
    run_seconds: tuple[float, ...] | None,
) -> Snapshot:
    """Return the snapshot with another time and number, and the figures that are not `None`."""
    new_host, runs = snapshot.host, snapshot.runs
    if host is not None:
        new_host = replace(new_host, **dict(zip(HOST_FIELDS, host, strict=True)))
    if run_seconds is not None:
        pairs = zip(runs, run_seconds, strict=True)
        runs = tuple([replace(run, seconds=seconds) for run, seconds in pairs])
    return replace(snapshot, taken_at=taken_at, sequence=sequence, host=new_host, runs=runs)


def with_columns(
    snapshot: Snapshot,
    gpus: Mapping[str, Column],
    instances: Mapping[str, Column],
    processes: Mapping[str, Column],
) -> Snapshot:
    """Return the snapshot with these columns, by the names of their fields."""
    if not (gpus or instances or processes):
        return snapshot
    gpu_rows, instance_rows, process_rows = _rows(gpus), _rows(instances), _rows(processes)

    def device_fields(device: Gpu | Instance, own: dict[str, Any]) -> dict[str, Any]:
        listed = device.processes
        if listed and processes:
            own["processes"] = tuple([replace(process, **next(process_rows)) for process in listed])
        return own

    def changed(gpu: Gpu) -> Gpu:
        own = device_fields(gpu, next(gpu_rows))
        if gpu.instances and (instances or processes):
            own["instances"] = tuple(
                [
                    replace(each, **device_fields(each, next(instance_rows)))
                    for each in gpu.instances
                ]
            )
        return replace(gpu, **own) if own else gpu

    return replace(snapshot, gpus=tuple([changed(gpu) for gpu in snapshot.gpus]))


def _rows(columns: Mapping[str, Column]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row; without any column, empty ones for ever."""
    if not columns:
        while True:
            yield {}
    names = tuple(columns)
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(names, row, strict=True))


def list_processes(gpus: Iterable[Gpu]) -> list[Process]:
    """Return the processes of all GPUs and their instances, in the order of the columns."""
    found: list[Process] = []
    for gpu in gpus:
        if gpu.processes:
            found += gpu.processes
        if gpu.instances:
            for instance in gpu.instances:
                found += instance.processes or ()
    return found


def list_instances(gpus: Iterable[Gpu]) -> list[Instance]:
    """Return the instances of all GPUs, in the order of the columns."""
    return [instance for gpu in gpus if gpu.instances for instance in gpu.instances]


def _columns(rows: list[Column], count: int) -> Columns:
    return tuple(zip(*rows, strict=True)) or ((),) * count


def _memory_limit(device: Gpu | Instance) -> int | None:
    # With a reason why the memory in use is unknown, no value goes: the reason would stay.
    return -1 if "memory_used_bytes" in device.unread else device.memory_total_bytes
