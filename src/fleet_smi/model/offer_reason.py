"""The reason text of an offer: how many are offered and where, or why there are not enough."""

from collections import Counter
from collections.abc import Sequence

from fleet_smi.model.candidates import Device, GpuRequest

_MAX_NODES = 4


def describe_met(request: GpuRequest, offered: Sequence[Device]) -> str:
    """Return "4 of 4 requested: 2 on dgx03, 2 on dgx02; not on one node"."""
    nodes = _by_node(offered)
    if not request.count:
        return f"all that are free: {_places(offered)}"
    count = f"{len(offered)} of {request.count} requested"
    if len(nodes) == 1:
        together = "both " if len(offered) == 2 else "all " if len(offered) > 2 else ""
        return f"{count}: {together}on {offered[0].node.name}"
    return f"{count}: {_places(offered)}; not on one node"


def describe_unmet(
    request: GpuRequest, of_one_kind: Sequence[Device], chosen: Sequence[Device], other_kind: int
) -> str:
    """Return why a request is not met; `other_kind` counts those that cannot be mixed in."""
    is_part = bool(of_one_kind) and of_one_kind[0].part is not None
    noun = "MIG instance" if is_part else "GPU"
    if request.model or request.min_free_bytes or request.node:
        noun = f"matching {noun}"
    free = len(of_one_kind)
    if not free:
        return f"no {noun} is free"
    if request.same_node and free > len(chosen):
        node = chosen[0].node.name
        text = f"no node has {request.count} free {noun}s: {len(chosen)} of {free} are on {node}"
    else:
        text = f"{free} of {request.count} requested {noun}s are free: {_places(of_one_kind)}"
    if other_kind:
        other = "whole GPU" if is_part else "MIG instance"
        text += f"; {other_kind} {other}{'s' * (other_kind > 1)} cannot be combined with them"
    return text


def _by_node(devices: Sequence[Device]) -> list[tuple[str, int]]:
    """Count the devices of each node, the most first."""
    counts = Counter([one.node.node_id for one in devices])
    names = {one.node.node_id: one.node.name for one in devices}
    return [(names[node_id], count) for node_id, count in counts.most_common()]


def _places(devices: Sequence[Device]) -> str:
    nodes = _by_node(devices)
    places = [f"{count} on {name}" for name, count in nodes[:_MAX_NODES]]
    rest = nodes[_MAX_NODES:]
    if rest:
        places.append(f"{sum(count for _, count in rest)} on {len(rest)} more")
    return ", ".join(places)
