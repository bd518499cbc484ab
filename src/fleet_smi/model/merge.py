"""Merging of what several collectors read: a device, its processes, and its host."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, StillReading
from fleet_smi.model.snapshot import (
    NOT_ANSWERING_REMEDY,
    PERSISTENCE_REMEDY,
    Fault,
    FaultKind,
    Gpu,
    Host,
    Lease,
    Process,
    Snapshot,
)


def all_processes(gpu: Gpu) -> Iterable[Process]:
    """Yield the processes of a GPU and of its instances."""
    yield from gpu.processes or ()
    for instance in gpu.instances:
        yield from instance.processes or ()


def with_process_details(gpu: Gpu, details: dict[int, Process]) -> Gpu:
    """Add owners and commands to the pids that the driver listed."""
    if not (gpu.processes or gpu.instances):
        return gpu
    return replace(
        gpu,
        processes=_with_details(gpu.processes, details),
        instances=tuple(
            replace(instance, processes=_with_details(instance.processes, details))
            for instance in gpu.instances
        ),
    )


def with_host_memory(gpu: Gpu, host: Host) -> Gpu:
    """Give a device without memory of its own the memory figures of the host."""
    if not gpu.memory_shared or gpu.memory_total_bytes is not None:
        return gpu
    return replace(
        gpu,
        memory_used_bytes=host.memory_used_bytes,
        memory_total_bytes=host.memory_total_bytes,
    )


def with_hidden_processes(gpu: Gpu) -> Gpu:
    """Mark the list of a GPU that was read inside a pid namespace: others cannot be seen there.

    An empty list says nothing then, and becomes unknown.
    """
    if gpu.fault is not None:
        return gpu
    instances = tuple(
        [
            instance if instance.processes else replace(instance, processes=None)
            for instance in gpu.instances
        ]
    )
    unread = {"processes": "not visible from inside this container", **gpu.unread}
    return replace(
        gpu,
        processes=gpu.processes or None,
        processes_hidden=True,
        instances=instances,
        unread=gpu.unread if gpu.processes else unread,
    )


def with_leases(gpu: Gpu, leases: Mapping[str, Lease]) -> Gpu:
    """Add the leases of a GPU and its instances, by UUID."""
    if gpu.instances:
        instances = [
            replace(each, lease=leases[each.uuid]) if each.uuid in leases else each
            for each in gpu.instances
        ]
        gpu = replace(gpu, instances=tuple(instances))
    lease = leases.get(gpu.uuid)
    return gpu if lease is None else replace(gpu, lease=lease)


def with_node_scoped_uuid(gpu: Gpu, node_id: str) -> Gpu:
    """Append the node's id to a placeholder UUID, which is unique only within its node."""
    return replace(gpu, uuid=f"{gpu.uuid}@{node_id}") if gpu.uuid_is_made else gpu


def with_node_id(snapshot: Snapshot, node_id: str) -> Snapshot:
    """Return the snapshot of a node under another id, with its placeholder UUIDs."""
    gpus = [_move(gpu, snapshot.node_id, node_id) for gpu in snapshot.gpus]
    return replace(snapshot, node_id=node_id, gpus=tuple(gpus))


def _move(gpu: Gpu, old_id: str, node_id: str) -> Gpu:
    # A made-up UUID holds the id of its node, so it has to follow the node.
    bare = replace(gpu, uuid=gpu.uuid.removesuffix(f"@{old_id}")) if gpu.uuid_is_made else gpu
    return with_node_scoped_uuid(bare, node_id)


def fault_kind(error: CollectError) -> FaultKind:
    """Return the kind of the fault of `fault_from_error`."""
    if isinstance(error, StillReading):
        return "slow"
    if isinstance(error, NotAnswering):
        return "not_answering"
    return "mismatch" if isinstance(error, DriverMismatch) else "unreadable"


def fault_from_error(error: CollectError) -> Fault:
    """Return the fault that a failed reading means for each of its devices."""
    if isinstance(error, StillReading):
        return Fault(
            kind="slow",
            detail=f"driver slow: {error}",
            remedy=PERSISTENCE_REMEDY if _starts_without_persistence(error) else None,
            since=error.since,
        )
    if isinstance(error, NotAnswering):
        return Fault(
            kind="not_answering",
            detail="driver not answering",
            remedy=NOT_ANSWERING_REMEDY,
            since=error.since,
        )
    return Fault(kind=fault_kind(error), detail=str(error))


def _starts_without_persistence(error: NotAnswering) -> bool:
    found = error.partial_result
    return bool(found.get("initialising") and found.get("no_persistence"))


def _with_details(
    processes: tuple[Process, ...] | None, details: dict[int, Process]
) -> tuple[Process, ...] | None:
    if processes is None:
        return None
    return tuple(_with_detail(process, details.get(process.pid)) for process in processes)


def _with_detail(process: Process, detail: Process | None) -> Process:
    # The driver also lists what /proc does not show, such as processes of other pid namespaces.
    if detail is None:
        return replace(process, hidden=True)
    # Only the driver knows what a process does on this one GPU.
    return replace(
        detail,
        kind=process.kind,
        gpu_memory_bytes=process.gpu_memory_bytes,
        busy_percent=process.busy_percent,
    )
