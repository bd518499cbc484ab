"""GPUs that a user names by index or UUID. Pure."""

import re
from collections.abc import Mapping, Sequence

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


def only_visible(view: FleetView, environment: Mapping[str, str]) -> FleetView:
    """Return the view without the AMD and Intel GPUs that the environment hides.

    For NVIDIA, `GpuRequest.cuda_visible_devices` says so.
    """
    rocr = environment.get("ROCR_VISIBLE_DEVICES") or environment.get("HIP_VISIBLE_DEVICES")
    selector = re.fullmatch(r"level_zero:([\d,]+)", environment.get("ONEAPI_DEVICE_SELECTOR", ""))
    visible = {"amd": rocr, "intel": selector[1] if selector else None}
    if not any(visible.values()):
        return view
    names = {vendor: value.split(",") for vendor, value in visible.items() if value}
    nodes = [
        replace(node, gpus=tuple([gpu for gpu in node.gpus if _is_named(gpu, names)]))
        for node in view.nodes
    ]
    return replace(view, nodes=tuple(nodes))


def _is_named(gpu: JudgedGpu, names: Mapping[str, list[str]]) -> bool:
    given = names.get(gpu.vendor)
    return given is None or any(_named(gpu, name.strip()) for name in given)


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
