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
        # An address that two interfaces share is listed once, with the first of them.
        interfaces: dict[str, str] = {}
        for name, address in raw:
            usable = not address.startswith(("127.", "::1", "fe80"))
            if usable and not name.startswith(_CONTAINER_BRIDGES):
                interfaces.setdefault(sanitize_text(address, 64), sanitize_text(name, 64))
        return SnapshotPart(host=Host(addresses=tuple(interfaces), interfaces=interfaces))
