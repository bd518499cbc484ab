"""Which leases are held in a folder, by what the kernel says."""

from pathlib import Path

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import leases


def held_uuids(folder: Path) -> list[str]:
    """Return the UUIDs of the leased GPUs."""
    try:
        return [row["uuid"] for row in leases.read(folder=str(folder))]
    except NotPresent:
        return []
