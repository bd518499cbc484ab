"""Where the system's ssh reaches a node that the hub offers."""

from collections.abc import Sequence
from typing import Protocol


class SshNode(Protocol):
    """A node that is offered, and how ssh reaches it."""

    @property
    def node_id(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def ssh_host(self) -> str | None: ...


def ssh_destination(candidate: SshNode, targets: Sequence[str] = ()) -> str:
    """Return the destination for ssh; never a name that an administrator gave the node.

    `targets` are hosts that were given on the command line, perhaps with a user.
    """
    host = candidate.ssh_host or candidate.node
    host = next((each for each in targets if each.rpartition("@")[2] == host), host)
    # ssh takes a port only in a URL; more than one colon is an IPv6 address.
    return f"ssh://{host}" if host.count(":") == 1 else host
