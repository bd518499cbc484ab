"""GPUs that a user names by index or UUID. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView


def only_named(view: FleetView, names: Sequence[str]) -> FleetView:
    """Return the view with only the GPUs and instances of these names; all without any name.

    A name is an index, the beginning of a UUID, or "2:0" for an instance of GPU 2. Raise
    `UsageError` for a name that fits none.
    """
    if not names:
        return view
    found: set[str] = set()
    for name in names:
        uuids = {uuid for node in view.nodes for gpu in node.gpus for uuid in _named(gpu, name)}
        if not uuids:
            listed = ", ".join(str(gpu.index) for node in view.nodes for gpu in node.gpus)
            raise UsageError(f"no GPU {name!r} here; there are {listed or 'none'}")
        found |= uuids
    return replace(view, nodes=tuple([_only(node, found) for node in view.nodes]))


def _named(gpu: JudgedGpu, name: str) -> set[str]:
    index, _, part = name.partition(":")
    if index == str(gpu.index):
        if part:
            return {each.uuid for at, each in enumerate(gpu.instances) if part == str(at)}
        return {gpu.uuid, *(each.uuid for each in gpu.instances)}
    if len(name) < 4:
        return set()
    if gpu.uuid.startswith(name):
        return {gpu.uuid, *(each.uuid for each in gpu.instances)}
    return {each.uuid for each in gpu.instances if each.uuid.startswith(name)}


def _only(node: NodeView, uuids: set[str]) -> NodeView:
    gpus = [
        replace(gpu, instances=tuple([each for each in gpu.instances if each.uuid in uuids]))
        for gpu in node.gpus
        if gpu.uuid in uuids or any(each.uuid in uuids for each in gpu.instances)
    ]
    return replace(node, gpus=tuple(gpus))
