"""Routes to nodes, and where ssh reaches a node by what is known of them."""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.model.snapshot import Snapshot


class Via(Struct, frozen=True, gc=False):
    """A route to a node: the source, and what that source calls the node."""

    source: str
    target: str

    @property
    def placeholder_id(self) -> str:
        """The node id of a target that has not reported yet, which no sender may report."""
        return f"{self.source}:{self.target}"


def find_ssh_host(vias: Iterable[Via], snapshot: Snapshot | None) -> str | None:
    """Return where ssh reaches a node: the ssh target, else a reported address or name."""
    targets = [via.target for via in vias if via.source == "ssh"]
    if targets:
        # The user is that of the hub, not of the person who asks.
        return min(targets).rpartition("@")[2]
    if snapshot is None:
        return None
    addresses = snapshot.host.addresses
    # IPv4 first: it is what most people can reach.
    for address in addresses:
        if ":" not in address:
            return address
    return addresses[0] if addresses else snapshot.name
