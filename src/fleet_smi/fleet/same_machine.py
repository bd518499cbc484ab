"""One machine by two transports: an agent, and an older tool that reports no machine-id.

nvgpu, cluster-smi and gpustat know a machine by its host name. What they report of a machine that
an agent reports, too, adds nothing, and as a second node its GPUs would be counted and offered
twice. But names, addresses and UUIDs are claims: two machines of one name stay two nodes, and no
agent hides a use of GPUs that the older tool sees. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from fleet_smi.fleet.delivery import IdOrigin
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.fleet.via import Via
from fleet_smi.model.merge import all_processes
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.thresholds import Thresholds

# How long an older tool stays a route of a node that has become silent: after a restart of hub or
# agent it must not be listed for a moment. Later it is all that is known of the machine.
_GRACE_SECONDS = 600.0
# Two samples of one machine differ by what happened in between; three in a row are no chance.
_MAX_CONTRADICTIONS = 3
_DISTINCT_SECONDS = 3600.0
_MEMORY_TOLERANCE_BYTES = 2 * GIB
# An agent that reports less often than this is not taken to be running at the same time.
_MAX_SILENCE_SECONDS = 900.0


class _Contradiction(Struct):
    """Reports in a row that contradict those of the agent, and when the last one was taken."""

    count: int
    at: float


def is_known_by_name(snapshot: Snapshot, origin: IdOrigin) -> bool:
    """Return whether a report is of a tool that knows its machine by the host name alone."""
    return (
        origin == "target"
        and snapshot.boot_id is None
        and snapshot.run_id is None
        and snapshot.agent_version is None
    )


class MachineIndex:
    """Finds the node of an agent that runs on the same machine as an older tool."""

    def __init__(self, nodes: Mapping[str, NodeState], thresholds: Thresholds) -> None:
        self._nodes = nodes
        self._thresholds = thresholds
        # Nodes with a machine-id, by short host name and by address.
        self._by_key: dict[str, set[str]] = {}
        self._keys: dict[str, set[str]] = {}
        self._contradictions: dict[tuple[str, str], _Contradiction] = {}
        # The node id that a tool reports for a machine, by node and source, and when it last did.
        self._tools: dict[tuple[str, str], tuple[str, float]] = {}

    def update(self, node_id: str, snapshot: Snapshot) -> None:
        """Index a node by its latest snapshot."""
        is_full = snapshot.boot_id is not None
        self._index(node_id, {_short(snapshot.name), *snapshot.host.addresses} if is_full else ())

    def update_if_changed(self, node: NodeState, snapshot: Snapshot) -> None:
        """Index a node by its next snapshot, where that differs: it hardly ever does."""
        before = node.base
        if (
            before is None
            or (before.name, before.host.addresses) != (snapshot.name, snapshot.host.addresses)
            or before.boot_id != snapshot.boot_id
        ):
            self.update(node.node_id, snapshot)

    def forget(self, node_id: str) -> None:
        """Drop a node that is removed."""
        self._index(node_id, ())
        for pair in [pair for pair in self._contradictions if node_id in pair]:
            del self._contradictions[pair]
        for key in [key for key in self._tools if key[0] == node_id]:
            del self._tools[key]

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        for contradiction in self._contradictions.values():
            contradiction.at += seconds
        tools = self._tools.items()
        self._tools = {key: (tool_id, at + seconds) for key, (tool_id, at) in tools}

    def find(
        self, snapshot: Snapshot, at: float, via: Via, address: str | None, joined: str | None
    ) -> NodeState | None:
        """Return the node of an agent on the machine of a report that is known by name only.

        `address` is where the report is from, if that is known, and `joined` the node that its
        route belongs to so far.
        """
        found = [
            node
            for node in self._candidates(snapshot, address)
            if self._is_same(node, snapshot, at, address, is_joined=node.node_id == joined)
        ]
        # Of several tools of one kind and one name, only one can be on that machine.
        free = [node for node in found if self._is_only_tool(node, snapshot, at, via)]
        if len(free) != 1:
            return None
        self._tools[free[0].node_id, via.source] = snapshot.node_id, at
        return free[0]

    def _is_only_tool(self, node: NodeState, snapshot: Snapshot, at: float, via: Via) -> bool:
        tool_id, seen_at = self._tools.get((node.node_id, via.source), (snapshot.node_id, at))
        return tool_id == snapshot.node_id or at > seen_at + _MAX_SILENCE_SECONDS

    def _index(self, node_id: str, keys: Iterable[str]) -> None:
        new, old = set(keys), self._keys.get(node_id, set())
        for key in old - new:
            self._by_key[key].discard(node_id)
            if not self._by_key[key]:
                del self._by_key[key]
        for key in new - old:
            self._by_key.setdefault(key, set()).add(node_id)
        if new:
            self._keys[node_id] = new
        else:
            self._keys.pop(node_id, None)

    def _candidates(self, snapshot: Snapshot, address: str | None) -> Iterator[NodeState]:
        ids: set[str] = set()
        for key in (_short(snapshot.name), address):
            ids |= self._by_key.get(key or "", set())
        return (self._nodes[node_id] for node_id in ids if node_id in self._nodes)

    def _is_same(
        self,
        node: NodeState,
        snapshot: Snapshot,
        at: float,
        address: str | None,
        *,
        is_joined: bool,
    ) -> bool:
        full = node.snapshot
        grace = _GRACE_SECONDS if is_joined else 0.0
        running_until = min(node.silent_at(self._thresholds), node.at + _MAX_SILENCE_SECONDS)
        if full is None or at > running_until + grace:
            return False
        if not _is_at(full, node.address, snapshot, address) or not _has_gpus(
            full, snapshot, is_joined
        ):
            return False
        pair = (snapshot.node_id, node.node_id)
        before = self._contradictions.get(pair)
        if _contradicts(full, snapshot):
            count = 1 if before is None else before.count + 1
            self._contradictions[pair] = _Contradiction(count, at)
            return is_joined and count < _MAX_CONTRADICTIONS
        if before is None or before.count < _MAX_CONTRADICTIONS:
            self._contradictions.pop(pair, None)
            return True
        if at > before.at + _DISTINCT_SECONDS:
            del self._contradictions[pair]
        return False


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _is_at(
    full: Snapshot, full_address: str | None, snapshot: Snapshot, address: str | None
) -> bool:
    """Return whether two reports can be from one host, by name and address."""
    if address is not None:
        # Behind NAT a machine has another address: then the UUIDs tell.
        if _uuids(full) & _uuids(snapshot):
            return True
        # Where a report comes from cannot be made up, unlike the addresses in it.
        if full_address is not None:
            return address == full_address
        if full.host.addresses:
            return address in full.host.addresses
    names = full.name.lower(), snapshot.name.lower()
    has_one_domain = names[0] == names[1] or not all("." in name for name in names)
    return has_one_domain and _short(full.name) == _short(snapshot.name)


def _has_gpus(full: Snapshot, snapshot: Snapshot, is_joined: bool) -> bool:
    """Return whether two reports list the same GPUs: by UUID, else by their number and models."""
    if _uuids(full) and _uuids(snapshot):
        return not _uuids(full).isdisjoint(_uuids(snapshot))
    own, other = _models(full), _models(snapshot)
    # A tool may leave out a GPU that is lost: that alone does not make it another machine.
    if is_joined and len(own) != len(other):
        return True
    return bool(own) and len(own) == len(other) and all(map(_is_same_model, own, other))


def _uuids(snapshot: Snapshot) -> set[str]:
    return {gpu.uuid for gpu in snapshot.gpus if not gpu.uuid_is_made}


def _nvidia(snapshot: Snapshot) -> list[Gpu]:
    """Return the GPUs that older tools know, which are those of NVIDIA."""
    return sorted(
        [gpu for gpu in snapshot.gpus if gpu.vendor == "nvidia"], key=lambda gpu: gpu.index
    )


def _models(snapshot: Snapshot) -> list[str]:
    return [(gpu.name or "").lower().removeprefix("nvidia ") for gpu in _nvidia(snapshot)]


def _is_same_model(one: str, other: str) -> bool:
    # Tools cut long names.
    return one.startswith(other) or other.startswith(one)


def _contradicts(full: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether a tool sees a use of GPUs that the agent does not: then they are on two."""
    seen = _pids(full)
    listed = _pids(snapshot)
    is_complete = not any(gpu.processes is None or gpu.processes_hidden for gpu in full.gpus)
    if listed and is_complete and seen.isdisjoint(listed):
        return True
    by_index = {gpu.index: gpu for gpu in _nvidia(full)}
    return any(
        _uses_more(gpu, by_index[gpu.index]) for gpu in snapshot.gpus if gpu.index in by_index
    )


def _pids(snapshot: Snapshot) -> set[int]:
    return {
        process.pid
        for gpu in snapshot.gpus
        for process in all_processes(gpu)
        if not process.pid_is_made
    }


def _uses_more(gpu: Gpu, by_agent: Gpu) -> bool:
    if gpu.memory_used_bytes is None or by_agent.memory_used_bytes is None:
        return False
    return gpu.memory_used_bytes > by_agent.memory_used_bytes + _MEMORY_TOLERANCE_BYTES
