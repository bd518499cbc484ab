"""The state of all sites: their nodes as last received, and why a site does not answer. No I/O."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Undecodable
from fleet_smi.fleet.node_limit import MAX_NODES
from fleet_smi.hub.sites.site_nodes import build_site_node, site_node_id
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.stream_payload import FleetPayload
from fleet_smi.model.verdict.last_known import mark_silent
from fleet_smi.model.views import NodeParts, split_node_view
from fleet_smi.wire.event import Event, EventKind
from fleet_smi.wire.event_reader import apply_event

# A hub that restarts is away for a moment: its nodes become silent only after this time.
_GRACE_SECONDS = 10.0
# A node with 8 GPUs and their users has some 3 kB. What is shown is sent to every viewer.
_MAX_NODE_BYTES = 256 << 10
_MAX_DEVICES = 2048
_encode = msgspec.json.Encoder().encode


class Site(Struct, frozen=True):
    """Another hub: the name of its site here, its URL, and how to log in there."""

    name: str
    url: str
    token: str | None = None
    fingerprint: str | None = None


class _SiteState:
    """What is known of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.fleet: FleetPayload | None = None
        self.numbers: dict[str, int] = {}
        self.failure: str | None = "not reached yet"
        self.failed_since: float | None = None
        self.is_silent = False


class Sites:
    """The nodes of other hubs; lives on the event loop of the hub."""

    def __init__(self, sites: Iterable[Site], max_nodes: int = MAX_NODES) -> None:
        self._sites = {site.name: _SiteState(site) for site in sites}
        self._max_nodes = max_nodes
        self._dirty: set[str] = set()
        self.revision = 0
        """Counts the changes, as that of the own fleet does."""

    @property
    def node_count(self) -> int:
        """The number of nodes of all sites."""
        return sum([len(state.numbers) or 1 for state in self._sites.values()])

    def apply(self, name: str, kind: EventKind, event: Event, now: float) -> None:
        """Apply an event of the stream of a site; raise `Undecodable` if it is too large."""
        state = self._sites[name]
        _check_sizes(event)
        before = None if kind == "fleet" else state.fleet
        if kind == "change" and before is None:
            raise Undecodable("its stream began without the whole fleet")
        fleet = apply_event(before, event)
        if len(fleet.nodes) > self._max_nodes:
            raise Undecodable(f"it has more than {self._max_nodes} nodes, the limit of this hub")
        known = set(state.numbers)
        state.fleet = fleet
        if kind == "fleet" or event.nodes or event.removed:
            state.numbers = {
                site_node_id(name, node.node_id): number for number, node in fleet.nodes.items()
            }
        changed = {site_node_id(name, node.node_id) for node in event.nodes}
        changed |= {self._id_of(state, row.number) for row in event.figures}
        self._mark(changed | (known ^ state.numbers.keys()) | {_placeholder_id(name)})
        self._set_failure(state, None, now)

    def fail(self, name: str, reason: str, now: float) -> None:
        """Record why the hub of a site cannot be reached; its nodes stay as they were last."""
        self._set_failure(self._sites[name], reason, now)

    def tick(self, now: float) -> None:
        """Mark the nodes of sites that have become silent, or are back, as changed."""
        for state in self._sites.values():
            is_silent = _is_silent(state, now)
            if is_silent != state.is_silent:
                state.is_silent = is_silent
                self._mark(state.numbers)

    def take_dirty(self) -> set[str]:
        """Return and clear the ids of the nodes that changed, removed ones included."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def url_of(self, node_id: str) -> str | None:
        """Return the URL of the hub of a node; `None` if it is not one of a site."""
        state = self._sites.get(node_id.partition("/")[0])
        is_known = state is not None and (node_id in state.numbers or not state.numbers)
        return state.site.url if state is not None and is_known else None

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Yield every node of every site, in no particular order."""
        for name, state in self._sites.items():
            for node_id in [*state.numbers] or [_placeholder_id(name)]:
                node = self.node(node_id, now)
                if node is not None:
                    yield node

    def node(self, node_id: str, now: float) -> NodeView | None:
        """Return one node; `None` when it is unknown."""
        name = node_id.partition("/")[0]
        state = self._sites.get(name)
        if state is None:
            return None
        number = state.numbers.get(node_id)
        if number is None or state.fleet is None:
            is_placeholder = node_id == _placeholder_id(name) and not state.numbers
            return self._placeholder(state) if is_placeholder and state.failure else None
        payload, figures = state.fleet.nodes[number], state.fleet.figures.get(number)
        return self._with_failure(state, build_site_node(name, payload, figures, now), now)

    def parts(self, node_id: str, now: float) -> NodeParts | None:
        """Return one node in parts; `None` when it is unknown."""
        node = self.node(node_id, now)
        return None if node is None else split_node_view(node)

    def _set_failure(self, state: _SiteState, failure: str | None, now: float) -> None:
        if failure is not None and state.failed_since is None:
            state.failed_since = now
        elif failure is None:
            state.failed_since = None
        if failure != state.failure:
            state.failure = failure
            self._mark({*state.numbers, _placeholder_id(state.site.name)})

    def _with_failure(self, state: _SiteState, node: NodeView, now: float) -> NodeView:
        if not _is_silent(state, now):
            return node
        silent = mark_silent(node, 0.0, now)
        return replace(silent, silent=True, trouble=_describe_failure(state))

    def _placeholder(self, state: _SiteState) -> NodeView:
        return NodeView(
            node_id=_placeholder_id(state.site.name),
            name=f"{state.site.name}/",
            site=state.site.name,
            taken_at=None,
            age_seconds=None,
            silent=True,
            trouble=_describe_failure(state),
        )

    def _id_of(self, state: _SiteState, number: int) -> str:
        fleet = state.fleet
        node = None if fleet is None else fleet.nodes.get(number)
        return "" if node is None else site_node_id(state.site.name, node.node_id)

    def _mark(self, node_ids: Iterable[str] | Mapping[str, int]) -> None:
        self.revision += 1
        self._dirty.update(node_ids)


def _check_sizes(event: Event) -> None:
    """Raise `Undecodable` if a node is larger than any machine is."""
    if any(len(row.parts) > _MAX_DEVICES for row in event.figures):
        raise Undecodable(f"one of its nodes has more than {_MAX_DEVICES} GPUs")
    if any(len(_encode(node)) > _MAX_NODE_BYTES for node in event.nodes):
        raise Undecodable(f"one of its nodes has more than {_MAX_NODE_BYTES >> 10} KiB")


def _is_silent(state: _SiteState, now: float) -> bool:
    return state.failed_since is not None and now - state.failed_since > _GRACE_SECONDS


def _placeholder_id(name: str) -> str:
    """Return the id of what stands for a site of which no node is known."""
    return f"{name}/"


def _describe_failure(state: _SiteState) -> str:
    return f"the hub of the site {state.site.name} does not answer: {state.failure}"
