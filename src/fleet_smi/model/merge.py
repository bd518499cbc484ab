"""How what is known of a device, of its processes and of its node is put together."""

from collections.abc import Iterable

from msgspec.structs import replace

from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering
from fleet_smi.model.snapshot import NOT_ANSWERING_REMEDY, Fault, FaultKind, Gpu, Host, Process


def all_processes(gpu: Gpu) -> Iterable[Process]:
    """The processes of a GPU and of its instances."""
    yield from gpu.processes or ()
    for instance in gpu.instances:
        yield from instance.processes or ()


def with_process_details(gpu: Gpu, details: dict[int, Process]) -> Gpu:
    """Join owners and commands to the pids that the driver named."""
    if not (gpu.processes or gpu.instances):
        return gpu
    return replace(
        gpu,
        processes=_named(gpu.processes, details),
        instances=tuple(
            replace(instance, processes=_named(instance.processes, details))
            for instance in gpu.instances
        ),
    )


def with_host_memory(gpu: Gpu, host: Host) -> Gpu:
    """A device without memory of its own has the host's."""
    if not gpu.memory_shared or gpu.memory_total_bytes is not None:
        return gpu
    return replace(
        gpu,
        memory_used_bytes=host.memory_used_bytes,
        memory_total_bytes=host.memory_total_bytes,
    )


def with_node_scoped_uuid(gpu: Gpu, node_id: str) -> Gpu:
    """A device without a UUID goes by its place, which is its own only with the node's id."""
    return replace(gpu, uuid=f"{gpu.uuid}@{node_id}") if gpu.uuid_is_made else gpu


def fault_kind(error: CollectError) -> FaultKind:
    """What a failed reading means for the devices that it should have read."""
    if isinstance(error, NotAnswering):
        return "not_answering"
    return "mismatch" if isinstance(error, DriverMismatch) else "unreadable"


def fault_from_error(error: CollectError) -> Fault:
    """The same, as the fault of one of these devices."""
    if isinstance(error, NotAnswering):
        return Fault(
            kind="not_answering",
            detail="driver not answering",
            remedy=NOT_ANSWERING_REMEDY,
            since=error.since,
        )
    return Fault(kind=fault_kind(error), detail=str(error))


def _named(
    processes: tuple[Process, ...] | None, people: dict[int, Process]
) -> tuple[Process, ...] | None:
    if processes is None:
        return None
    return tuple(_one_named(process, people.get(process.pid)) for process in processes)


def _one_named(process: Process, person: Process | None) -> Process:
    if person is None:
        return replace(process, hidden=True)
    return replace(
        person,
        kind=process.kind,
        gpu_memory_bytes=process.gpu_memory_bytes,
        busy_percent=process.busy_percent,
    )
