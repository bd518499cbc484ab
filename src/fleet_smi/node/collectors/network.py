"""Where the machine can be reached."""

from typing import Any

from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Host
from fleet_smi.node.collector import SnapshotPart

# Bridges to containers on this machine: the same addresses are on every other.
_INNER = ("docker", "veth", "virbr", "cni", "br-")


class NetworkCollector:
    """Addresses of the machine that another machine could use."""

    name = "network"

    def parse(self, raw: Any) -> SnapshotPart:
        addresses = (
            sanitize_text(address, 64) for name, address in raw if not name.startswith(_INNER)
        )
        usable = tuple(item for item in addresses if not item.startswith(("127.", "::1", "fe80")))
        return SnapshotPart(host=Host(addresses=usable))
