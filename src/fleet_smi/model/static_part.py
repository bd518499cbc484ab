"""The static part of a snapshot: all of it but its figures, for comparing two snapshots."""

from collections.abc import Sequence

from fleet_smi.model.snapshot import Host, Instance, Process, Snapshot


def static_part(snapshot: Snapshot, processes: Sequence[Process]) -> tuple[object, ...]:
    """Return all of a snapshot that `figures_of` does not; a test compares both with the model.

    Written out in one expression: an agent does this every second, and calls would double the time.
    `processes` are all of the snapshot, from `list_processes`.
    """
    return (
        snapshot.node_id,
        snapshot.name,
        snapshot.interval_seconds,
        snapshot.run_id,
        snapshot.boot_id,
        snapshot.agent_version,
        snapshot.labels,
        _static_host(snapshot.host),
        [
            (
                gpu.uuid,
                gpu.uuid_is_made,
                gpu.index,
                gpu.vendor,
                gpu.name,
                gpu.pci_bus_id,
                gpu.memory_total_bytes,
                gpu.memory_shared,
                gpu.power_limit_watts,
                gpu.sm_clock_max_mhz,
                gpu.memory_clock_max_mhz,
                gpu.ecc_uncorrected,
                gpu.ecc_contained,
                gpu.reset_pending,
                gpu.pcie_generation_max,
                gpu.pcie_width_max,
                gpu.nvlink_links,
                gpu.nvlink_links_active,
                gpu.persistence,
                gpu.compute_mode,
                gpu.mig_mode,
                gpu.asleep,
                gpu.more_processes,
                gpu.processes_hidden,
                gpu.reported_by,
                gpu.fault,
                gpu.lease,
                gpu.unread,
                # `None` is another thing than an empty list.
                None if gpu.processes is None else len(gpu.processes),
                [_static_instance(each) for each in gpu.instances] if gpu.instances else (),
            )
            for gpu in snapshot.gpus
        ],
        [
            (
                process.pid,
                process.pid_is_made,
                process.parent_pid,
                process.kind,
                process.user,
                process.uid,
                process.group,
                process.name,
                process.command,
                process.started_at,
                process.container,
                process.pod,
                process.slurm_job,
                process.hidden,
            )
            for process in processes
        ],
        [(run.name, run.outcome, run.detail, run.fault) for run in snapshot.runs],
    )


def _static_host(host: Host) -> tuple[object, ...]:
    return (
        host.addresses,
        host.interfaces,
        host.kernel,
        host.driver_version,
        host.cuda_version,
        host.booted_at,
        host.cpu_count,
        host.memory_total_bytes,
        host.pid_namespace,
    )


def _static_instance(instance: Instance) -> tuple[object, ...]:
    return (
        instance.uuid,
        instance.uuid_is_made,
        instance.gpu_instance_id,
        instance.compute_instance_id,
        instance.profile,
        instance.memory_total_bytes,
        instance.more_processes,
        instance.lease,
        instance.unread,
        None if instance.processes is None else len(instance.processes),
    )
