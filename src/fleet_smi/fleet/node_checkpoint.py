"""The checkpoint of a node: what a restarted hub restores of it."""

from msgspec import Struct

from fleet_smi.fleet.inventory import Inventory
from fleet_smi.fleet.via import Via
from fleet_smi.model.sequences import SequenceTracker
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.verdict.hysteresis import Standing


class NodeCheckpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored state of one node; `given_…` are the name and labels set by an administrator.

    `ways` are its routes: what is on disk keeps the name that it was written with. `owner` is the
    route that its id first came by, where that is not `via`, and `reported_id` the id that it
    reports, where another machine has that.
    """

    node_id: str
    name: str
    snapshot: Snapshot
    at: float
    sequences: SequenceTracker
    inventory: Inventory
    via: Via | None = None
    ways: tuple[Via, ...] = ()
    given_name: str | None = None
    given_labels: dict[str, str] = {}
    standings: dict[str, Standing] = {}
    owner: Via | None = None
    reported_id: str | None = None
