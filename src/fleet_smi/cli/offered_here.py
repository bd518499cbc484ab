"""`fleet-smi run --on` where the node that the hub offers is this machine: without ssh."""

import argparse
import time
from typing import TYPE_CHECKING, Literal

from fleet_smi.cli.lease_keeper import say
from fleet_smi.errors import Unmet

if TYPE_CHECKING:
    from fleet_smi.cli.job_session import JobOptions
    from fleet_smi.cli.ssh_destination import SshNode


def is_this_machine(node: "SshNode") -> bool:
    """Return whether it is: by the id or name of the node, and by the GPUs that it offers."""
    from fleet_smi.cli.local_fleet import open_local_fleet, start_reader
    from fleet_smi.cli.this_machine import read_identity
    from fleet_smi.model.fleet import devices_of

    identity = read_identity()
    if identity.node_id != node.node_id and identity.name != node.node:
        return False
    # A cloned machine may have the same id, and another one the same name.
    fleet = open_local_fleet(start_reader(), full=False)
    view = fleet.view()
    fleet.close()
    devices = [each for one in view.nodes for gpu in one.gpus for each in devices_of(gpu)]
    return {device.uuid for device in devices}.issuperset(_offered_uuids(node))


def run_here(
    node: "SshNode", args: argparse.Namespace, options: "JobOptions"
) -> int | Literal["busy"]:
    """Run the job and return its wait status; "busy" where somebody else was faster."""
    from fleet_smi.cli import detached_jobs, job_session

    # It has had its turn in the queue: `remote` means that it does not wait there again.
    ids = args.gpu_ids or (",".join(_offered_uuids(node)) if hasattr(node, "uuids") else None)
    own = argparse.Namespace(**{**vars(args), "on": None, "remote": 0, "gpu_ids": ids})
    say(f"on {node.node}, which is this machine")
    if args.detach:
        job = detached_jobs.start(own, options)
        print(f"job {job.number}: {job.log}")
        return 0
    try:
        return job_session.take_and_run(own, options._replace(timeout_seconds=0.0), time.time())
    except Unmet as error:
        say(str(error))
        return "busy"


def _offered_uuids(node: "SshNode") -> tuple[str, ...]:
    """Return the GPUs that are offered: all of them by the queue, else at least one."""
    uuids: tuple[str, ...] = getattr(node, "uuids", ()) or (getattr(node, "uuid", ""),)
    return uuids
