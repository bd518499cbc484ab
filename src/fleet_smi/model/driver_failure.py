"""Failure of a machine's GPU driver as a whole, which is not the same as a machine without GPUs."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import CollectorRun, FaultKind, Snapshot

# What a driver that fails means for each GPU that is listed in spite of it.
_FAULTS: tuple[FaultKind, ...] = ("mismatch", "not_answering", "unreadable", "missing")
_OTHER_SUBJECTS = ("host", "hostname", "network", "processes")


def driver_failure(machine: Snapshot | NodeView) -> CollectorRun | None:
    """Return the failed run because of which no GPU of a machine can be read.

    `None` if nothing has failed, or if a GPU can be read all the same.
    """
    if any(gpu.fault is None or gpu.fault.kind not in _FAULTS for gpu in machine.gpus):
        return None
    failed = (run for run in machine.runs if run.outcome == "failed")
    return next((run for run in failed if run.name not in _OTHER_SUBJECTS), None)


def driver_error(machine: Snapshot | NodeView) -> str | None:
    """Return why no GPU of a machine can be read, as a text."""
    run = driver_failure(machine)
    return None if run is None else run.detail or f"{run.name} could not be read"
