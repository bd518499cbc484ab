"""Nodes that are known by their names alone, told apart where two have the same one."""

import re

from msgspec.structs import replace

from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.snapshot import Gpu, Snapshot

_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z.:-]")
_LONGEST_ID = 160


class DuplicateIdResolver:
    """Remembers by which target each node was first heard."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def disambiguate(self, snapshot: Snapshot, target: str) -> Snapshot:
        """The snapshot as it is, or under an id of its own when its name is another target's."""
        node_id = snapshot.node_id
        if self._targets.setdefault(node_id, target) == target:
            return snapshot
        own = f"{node_id}@{_NOT_IN_AN_ID.sub('-', target)}"[:_LONGEST_ID]
        gpus = [_moved(gpu, node_id, own) for gpu in snapshot.gpus]
        return replace(snapshot, node_id=own, gpus=tuple(gpus))


def _moved(gpu: Gpu, node_id: str, own: str) -> Gpu:
    """A GPU that goes by its place, which is on another node now."""
    bare = replace(gpu, uuid=gpu.uuid.removesuffix(f"@{node_id}"))
    return with_node_scoped_uuid(bare, own)
