"""What is handed from those who make history to the one who writes it down."""

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.history import GpuOfNode, Occupancy, Period, RibbonPoint, Sums

GpuKey = tuple[str, str]
"""A node's id and a UUID: a GPU that moves to another node is another there."""


class NodeRow(Struct, frozen=True, kw_only=True, gc=False):
    """A node, as it is called now."""

    node_id: str
    name: str
    labels: dict[str, str] = {}


class Presence(Struct, frozen=True, kw_only=True, gc=False):
    """A stretch in which a node was heard; `end` is `None` while it is."""

    node_id: str
    start: float
    end: float | None
    certain: bool = True


class SeriesRow(Struct, frozen=True, kw_only=True, gc=False):
    """The figures of one node and these GPUs over a grain, packed as `grains.py` does.

    The `data` may be of several grains, one after another: the first begins at `start`.
    """

    grain_seconds: int
    node_id: str
    start: int
    uuids: tuple[str, ...]
    data: bytes


class UsageRow(Struct, frozen=True, kw_only=True, gc=False):
    """What one user comes to on one GPU in one state, in the hour that begins at `hour`."""

    hour: int
    gpu_key: GpuKey
    user: str
    group: str
    state: State
    sums: Sums


class Checkpoint(Struct, frozen=True, kw_only=True, gc=False):
    """All that is open of one node, encoded: what a hub that was killed goes on from."""

    node_id: str
    data: bytes


class WriteBatch(Struct, kw_only=True):
    """What is written together, or not at all. Writing the same rows twice changes nothing."""

    nodes: list[NodeRow] = []
    gpus: list[GpuOfNode] = []
    periods: list[tuple[GpuKey, Period]] = []
    occupancies: list[tuple[GpuKey, Occupancy]] = []
    presence: list[Presence] = []
    series: list[SeriesRow] = []
    usage: list[UsageRow] = []
    moments: list[RibbonPoint] = []
    checkpoints: list[Checkpoint] = []
    removed_nodes: list[str] = []
    """Ids of nodes whose open intervals are no longer needed."""
