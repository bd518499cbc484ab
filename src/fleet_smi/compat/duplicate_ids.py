"""De-duplication of node ids: nodes known by name alone that share one name stay separate."""

import re

from fleet_smi.model.merge import with_node_id
from fleet_smi.model.snapshot import Snapshot

_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z.:-]")
_MAX_ID_LENGTH = 160


class DuplicateIdResolver:
    """Gives each node id to the first target that reports it, and never to another."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def disambiguate(self, snapshot: Snapshot, target: str) -> Snapshot:
        """Return the snapshot, with a different node id if another target already has its id."""
        node_id = snapshot.node_id
        if self._targets.setdefault(node_id, target) == target:
            return snapshot
        own_id = f"{node_id}@{_NOT_IN_AN_ID.sub('-', target)}"[:_MAX_ID_LENGTH]
        return with_node_id(snapshot, own_id)
