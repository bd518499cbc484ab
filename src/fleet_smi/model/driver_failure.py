"""Failure of a machine's GPU driver as a whole, which is not the same as a machine without GPUs."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import CollectorRun, FaultKind, Snapshot

# What a driver that fails means for each GPU that is listed in spite of it.
_FAULTS: tuple[FaultKind, ...] = ("mismatch", "not_answering", "unreadable", "missing")
# A node of cluster-smi that lists no GPU may have none: its report does not say.
_NOT_DRIVERS = ("host", "hostname", "network", "processes", "cluster-smi")


def driver_failure(machine: Snapshot | NodeView) -> CollectorRun | None:
    """Return the failed run because of which no GPU of a machine can be read.

    `None` if nothing has failed, or if a GPU can be read all the same.
    """
    if any(gpu.fault is None or gpu.fault.kind not in _FAULTS for gpu in machine.gpus):
        return None
    failed = (run for run in machine.runs if run.outcome == "failed")
    return next((run for run in failed if run.name not in _NOT_DRIVERS), None)


def driver_error(machine: Snapshot | NodeView) -> str | None:
    """Return why no GPU of a machine can be read, as a text."""
    run = driver_failure(machine)
    return None if run is None else run.detail or f"{run.name} could not be read"
