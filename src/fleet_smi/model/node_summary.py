"""The summary of a node: one row of the overview, without the details of its GPUs."""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, State, Summary
from fleet_smi.model.people import HIDDEN_USER, node_users
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.views import FleetParts, NodeParts, split_fleet_view


class UserCount(Struct, frozen=True, array_like=True, gc=False):
    """How many GPUs of a node a user holds, and how many of them idle."""

    user: str
    gpus: int
    idle: int


class NodeSummary(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One node as of its last report, its GPUs only counted.

    `reported_at` is when its last sample was taken, by the hub's clock. `states` are those of its
    GPUs, in order of their index, `models` how many it has of each. `busy_percent` is the mean of
    its GPUs, `memory_percent` the share of all their memory.
    """

    node_id: str
    name: str
    site: str | None = None
    silent: bool = False
    reported_at: float | None = None
    via: str | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    missing_reports: int = 0
    labels: dict[str, str] = {}
    driver_version: str | None = None
    agent_version: str | None = None
    models: dict[str, int] = {}
    states: tuple[State, ...] = ()
    busy_percent: float | None = None
    memory_percent: float | None = None
    users: tuple[UserCount, ...] = ()


class FleetOverview(Struct, frozen=True, kw_only=True):
    """The fleet at one moment, one row per node.

    `behind` are the ids of nodes whose agent is older than the hub, which is of `hub_version`.
    """

    taken_at: float
    summary: Summary
    nodes: tuple[NodeSummary, ...]
    hub_version: str | None = None
    behind: tuple[str, ...] = ()

    @property
    def gpu_count(self) -> int:
        """The number of GPUs of the nodes that this overview has."""
        return sum([len(node.states) for node in self.nodes])

    def age_seconds(self, node: NodeSummary) -> float | None:
        """Return how old the last report of a node is; `None` if it has never reported."""
        return None if node.reported_at is None else max(0.0, self.taken_at - node.reported_at)


def view_overview(view: FleetView) -> FleetOverview:
    """Summarise every node of a view."""
    return parts_overview(split_fleet_view(view))


def parts_overview(fleet: FleetParts) -> FleetOverview:
    """Summarise every node of a fleet in parts."""
    nodes = [summarize_node(parts, fleet.taken_at) for parts in fleet.nodes]
    return FleetOverview(taken_at=fleet.taken_at, summary=fleet.summary, nodes=tuple(nodes))


def summarize_node(parts: NodeParts, now: float) -> NodeSummary:
    """Summarise a node, from its parts at `now`."""
    node, age = parts.node, parts.node.age_seconds
    gpus = [gpu for gpu, _ in parts.gpus]
    busy = [gpu.busy_percent for gpu in gpus if gpu.busy_percent is not None]
    return NodeSummary(
        node_id=node.node_id,
        name=node.name,
        site=node.site,
        silent=node.silent,
        reported_at=None if age is None else now - age,
        via=node.via,
        warnings=node.warnings,
        failures=node.failures,
        limits=node.limits,
        missing_reports=node.missing_reports,
        labels=node.labels,
        driver_version=node.host.driver_version,
        agent_version=node.agent_version,
        models=count_models(gpus),
        states=tuple([verdict.state for _, verdict in parts.gpus]),
        busy_percent=sum(busy) / len(busy) if busy else None,
        memory_percent=_memory_percent(gpus),
        users=count_users(node_users(parts)),
    )


def count_models(gpus: Iterable[Gpu]) -> dict[str, int]:
    """Count the GPUs of each model.

    A GPU without a name (a lost one) is counted as the node's only model; beside several
    models it is counted as "GPU".
    """
    counts: dict[str, int] = {}
    for gpu in gpus:
        name = gpu.name or "GPU"
        counts[name] = counts.get(name, 0) + 1
    if len(counts) == 2 and "GPU" in counts:
        unnamed = counts.pop("GPU")
        return {name: count + unnamed for name, count in counts.items()}
    return counts


def _memory_percent(gpus: Iterable[Gpu]) -> float | None:
    """Return the percentage of memory in use, over the GPUs that report used and total."""
    used = total = 0
    for gpu in gpus:
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes:
            used += gpu.memory_used_bytes
            total += gpu.memory_total_bytes
    return 100 * used / total if total else None


def count_users(holdings: Iterable[tuple[str, bool]]) -> tuple[UserCount, ...]:
    """Count the GPUs of each user, most GPUs first; processes of hidden owners last.

    Each holding has its user, and whether it is idle.
    """
    counts: dict[str, list[int]] = {}
    for user, idle in holdings:
        count = counts.setdefault(user, [0, 0])
        count[0] += 1
        count[1] += idle
    if len(counts) < 2:
        return tuple([UserCount(user, gpus, idle) for user, (gpus, idle) in counts.items()])
    ordered = sorted(
        counts.items(), key=lambda item: (item[0] == HIDDEN_USER, -item[1][0], item[0])
    )
    return tuple([UserCount(user, gpus, idle) for user, (gpus, idle) in ordered])
