"""Users of a GPU that has a lease, or none: who is on it without one."""

from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.process_group import user_processes


def users_without_lease(subject: Gpu | Instance) -> tuple[str, ...]:
    """Return the users on a GPU that do not hold its lease, each once.

    Under a lease, processes in containers are left out: they often run as root, for any user of
    the container.
    """
    lease = subject.lease
    users = dict.fromkeys(
        [
            owner(process)
            for process in user_processes(subject)
            if lease is None or process.container is None
        ]
    )
    users.pop(HIDDEN_USER, None)
    if lease is not None:
        users.pop(lease.holder, None)
    return tuple(users)
