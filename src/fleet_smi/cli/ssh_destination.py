"""Where the system's ssh reaches a node that the hub offers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_smi.model.candidates import Candidate, OfferedDevice


def ssh_destination(candidate: "Candidate | OfferedDevice", targets: Sequence[str] = ()) -> str:
    """Return the destination for ssh; never a name that an administrator gave the node.

    `targets` are hosts that were given on the command line, perhaps with a user.
    """
    host = candidate.ssh_host or candidate.node
    host = next((each for each in targets if each.rpartition("@")[2] == host), host)
    # ssh takes a port only in a URL; more than one colon is an IPv6 address.
    return f"ssh://{host}" if host.count(":") == 1 else host
