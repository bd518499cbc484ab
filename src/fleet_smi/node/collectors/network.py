"""IP addresses under which other machines can reach this one."""

from typing import Any

from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Host
from fleet_smi.node.collector import SnapshotPart

# Bridges to containers on this machine: every machine has the same addresses there.
_CONTAINER_BRIDGES = ("docker", "veth", "virbr", "cni", "br-")


class NetworkCollector:
    """Addresses of the machine, without loopback, link-local and container bridges."""

    name = "network"

    def parse(self, raw: Any) -> SnapshotPart:
        addresses = (
            sanitize_text(address, 64)
            for name, address in raw
            if not name.startswith(_CONTAINER_BRIDGES)
        )
        usable = tuple(item for item in addresses if not item.startswith(("127.", "::1", "fe80")))
        return SnapshotPart(host=Host(addresses=usable))
