"""Which agents are older than their hub."""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from fleet_smi.model.node_summary import FleetOverview, NodeSummary

_RELEASE = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})")


def is_behind(version: str | None, hub_version: str) -> bool:
    """Whether an agent's version is older than the hub's; false if one of them is not known."""
    agent, hub = _release(version or ""), _release(hub_version)
    return bool(agent and hub) and agent < hub


def mark_behind(overview: FleetOverview, hub_version: str) -> FleetOverview:
    """The overview with the hub's version, and the ids of the nodes whose agent is older."""
    return replace(
        overview, hub_version=hub_version, behind=tuple(_behind(overview.nodes, hub_version))
    )


def _behind(nodes: Iterable[NodeSummary], hub_version: str) -> Iterable[str]:
    # Nodes have one of few versions: each is compared once.
    known: dict[str | None, bool] = {}
    for node in nodes:
        version = node.agent_version
        if version not in known:
            known[version] = is_behind(version, hub_version)
        # Agents of another site are as new as the hub there.
        if known[version] and node.site is None:
            yield node.node_id


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a release, without what follows, as in "1.2.0rc1"."""
    found = _RELEASE.match(version)
    return tuple(map(int, found[1].split("."))) if found else ()
