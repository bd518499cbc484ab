"""Selection of GPUs for a request: which ones meet it, best first, and why not the others."""

from collections.abc import Iterable, Iterator, Sequence
from typing import SupportsIndex

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Unmet, UsageError
from fleet_smi.model.candidates import Candidate, GpuRequest, matches_node, node_candidates
from fleet_smi.model.cuda_visibility import visible_uuids
from fleet_smi.model.fleet import (
    FleetView,
    NodeView,
    Summary,
)
from fleet_smi.model.node_names import unique_node_names
from fleet_smi.model.policies import POLICIES, is_offered
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.speed import speed_rank
from fleet_smi.model.units import GIB, format_duration, format_size
from fleet_smi.model.verdict.readings import total_memory, valid_percent
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds

_NOT_VISIBLE = "free, but not in CUDA_VISIBLE_DEVICES"
_OTHER_KIND = "free, but whole GPUs and MIG instances are not mixed"
# In order of preference, where no vendor is requested.
_VENDORS: tuple[Vendor, ...] = ("nvidia", "amd", "intel")


class Rejection(Struct, frozen=True, kw_only=True):
    """Why a device was not offered; without an index it is about a whole node."""

    node: str
    words: str
    index: int | None = None
    uuid: str | None = None
    part: int | None = None


RejectedCandidate = tuple[Candidate, str]


class Offer(Struct, frozen=True, kw_only=True):
    """The result of a request, best first; `unmet` says why it is less than requested."""

    taken_at: float
    summary: Summary
    wanted: int
    offered: tuple[Candidate, ...] = ()
    refused: tuple[Rejection, ...] = ()
    unmet: str | None = None


def find_offer(
    view: FleetView, request: GpuRequest, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> Offer:
    """Return what meets a request; where that is not enough, all of it and `unmet`."""
    pool = (one for node in view.nodes for one in node_candidates(node, request))
    return choose_offer(view, sorted(pool, key=_place), request, thresholds)


def choose_offer(
    view: FleetView,
    pool: Sequence[Candidate],
    request: GpuRequest,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
) -> Offer:
    """Return the offer from a `pool` of candidates that is sorted by node name and index.

    Raise `UsageError` if the request is invalid.
    """
    check_request(request)
    vendor = request.vendor or _usual_vendor(pool)
    hidden = _hidden_by_cuda(view, request)
    checked = [(one, _rejection_reason(one, request, vendor, thresholds, hidden)) for one in pool]
    # Stable: equal candidates stay in the order of the pool.
    fitting = sorted((one for one, reason in checked if reason is None), key=_preference)
    chosen = _one_kind(fitting, request.count)
    # By identity: comparing candidates by value would be quadratic in a large fleet.
    chosen_ids = set(map(id, chosen))
    refused = [(one, reason or _OTHER_KIND) for one, reason in checked if id(one) not in chosen_ids]
    if request.same_node:
        chosen = _one_node(chosen, request.count)
    enough = len(chosen) >= max(1, request.count)
    offered = chosen[: request.count or None] if enough else chosen
    return Offer(
        taken_at=view.taken_at,
        summary=view.summary,
        wanted=request.count,
        offered=tuple(_with_node_labels(offered, view)),
        refused=tuple(_rejections(view.nodes, refused, request)),
        unmet=None if enough else _unmet(request, len(fitting), len(chosen), refused),
    )


def _with_node_labels(offered: Iterable[Candidate], view: FleetView) -> Iterator[Candidate]:
    names = unique_node_names(view.nodes)
    return (replace(one, node_label=names[one.node_id]) for one in offered)


def require_offer(
    view: FleetView, request: GpuRequest, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> Offer:
    """Return what meets the request; raise `Unmet` where that is not enough."""
    offer = find_offer(view, request, thresholds)
    if offer.unmet is not None:
        raise Unmet(offer.unmet)
    return offer


def check_request(request: GpuRequest) -> None:
    """Raise `UsageError` if the request is invalid."""
    # Requests come from people's programs too. `True` is an int, but no number of GPUs.
    if isinstance(request.count, bool) or not isinstance(request.count, SupportsIndex):
        raise UsageError(f"{request.count!r} is not a number of GPUs: give a whole number")
    if request.count < 0:
        raise UsageError(f"{request.count} GPUs cannot be offered: request one or more")
    if request.policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise UsageError(f"unknown policy {request.policy!r}: there are {known}")


def _usual_vendor(pool: Iterable[Candidate]) -> Vendor | None:
    present = {one.vendor for one in pool}
    return next((vendor for vendor in _VENDORS if vendor in present), None)


def _hidden_by_cuda(view: FleetView, request: GpuRequest) -> frozenset[str]:
    """Return the UUIDs of NVIDIA devices that the caller's CUDA_VISIBLE_DEVICES leaves out."""
    if request.cuda_visible_devices is None:
        return frozenset()
    gpus = [gpu for node in view.nodes for gpu in node.gpus if gpu.vendor == "nvidia"]
    uuids = [gpu.uuid for gpu in gpus]
    uuids += [instance.uuid for gpu in gpus for instance in gpu.instances]
    return frozenset(uuids) - visible_uuids(request.cuda_visible_devices, gpus)


def _rejection_reason(
    one: Candidate,
    request: GpuRequest,
    vendor: Vendor | None,
    thresholds: Thresholds,
    hidden: frozenset[str],
) -> str | None:
    """Return why a candidate is not offered; `None` when it is."""
    if one.vendor != vendor:
        return f"of another vendor: request it with --vendor {one.vendor}"
    if not is_offered(one.judged, request.policy, request.max_used_percent, thresholds):
        return _state_and_reason(one)
    if one.uuid in hidden:
        return _NOT_VISIBLE
    if not request.min_free_bytes:
        return None
    if one.free_memory_bytes is None:
        return f"{one.judged.verdict.state}, but how much memory is free is not known"
    if one.free_memory_bytes < request.min_free_bytes:
        size = format_size(one.free_memory_bytes)
        return f"{one.judged.verdict.state}, but has only {size} of free memory"
    return None


def _state_and_reason(one: Candidate) -> str:
    verdict = one.judged.verdict
    by = " by " if verdict.state == "held" and one.judged.processes else ": "
    return f"{verdict.state}{by}{verdict.reason}"


def _preference(one: Candidate) -> tuple[object, ...]:
    """Sort key: most free memory, fastest model, coolest card, least used node."""
    free, celsius = one.free_memory_bytes, one.temperature_celsius
    return (
        # In whole GiB: a few MiB more are no reason to take the hotter card.
        -1 if free is None else -1 - free // GIB,
        speed_rank(one.model),
        float("inf") if celsius is None else celsius,
        one.taken_beside,
    )


def _place(one: Candidate) -> tuple[object, ...]:
    return natural_sort_key(one.node), one.node_id, one.index, -1 if one.part is None else one.part


def _one_kind(fitting: list[Candidate], count: int) -> list[Candidate]:
    """Return whole GPUs or MIG instances, which CUDA cannot mix; whole ones if they suffice."""
    # Instances only where they give more than the whole GPUs, and these are not enough.
    whole = [one for one in fitting if one.part is None]
    parts = [one for one in fitting if one.part is not None]
    return whole if len(whole) >= max(1, count) or len(parts) <= len(whole) else parts


def _one_node(fitting: list[Candidate], count: int) -> list[Candidate]:
    """Return the candidates of the node that has enough, or else the most."""
    by_node: dict[str, list[Candidate]] = {}
    for one in fitting:
        by_node.setdefault(one.node_id, []).append(one)
    # Groups are in the order of their best candidate, and `max` keeps the first of equals.
    return max(by_node.values(), key=lambda group: min(len(group), count or len(group)), default=[])


def _rejections(
    nodes: Iterable[NodeView], refused: list[RejectedCandidate], request: GpuRequest
) -> Iterator[Rejection]:
    for one, reason in refused:
        yield Rejection(node=one.node, index=one.index, uuid=one.uuid, part=one.part, words=reason)
    for node in nodes:
        if node.silent and matches_node(node, request):
            yield Rejection(node=node.name, words=_silence(node))


def _silence(node: NodeView) -> str:
    if node.age_seconds is None:
        return f"never reported: {node.trouble}" if node.trouble else "never reported"
    return f"node silent for {format_duration(node.age_seconds)}"


def _unmet(request: GpuRequest, free: int, together: int, refused: list[RejectedCandidate]) -> str:
    matching = "matching " if request.model or request.min_free_bytes or request.node else ""
    count = "no" if not free else str(free)
    text = f"{count} {matching}{'GPU is' if free < 2 else 'GPUs are'} free"
    if request.same_node and free > together:
        text += f", {together} of them on one node"
    if request.count:
        text += f", {request.count} {'was' if request.count == 1 else 'were'} requested"
    outside = sum(reason == _NOT_VISIBLE for _, reason in refused)
    if outside:
        text += f"; CUDA_VISIBLE_DEVICES={request.cuda_visible_devices} leaves out {outside} more"
    likely = _next_likely([one for one, reason in refused if reason != _NOT_VISIBLE], request)
    return text if likely is None else f"{text}; the next likely one is {likely.label}"


def _next_likely(rest: list[Candidate], request: GpuRequest) -> Candidate | None:
    """Return the held one that was idle longest, or else the busy one with the least load."""
    # A device whose memory is not measured is never offered.
    measured = [one for one in rest if one.free_memory_bytes is not None]
    large = [one for one in measured if (total_memory(one.judged) or 0) >= request.min_free_bytes]
    held = [one for one in large if one.judged.verdict.state == "held"]
    busy = [one for one in large if one.judged.verdict.state == "busy"]
    if held:
        return min(
            held, key=lambda one: (-(one.judged.verdict.idle_seconds or 0.0), _preference(one))
        )
    return min(busy, key=lambda one: (_load(one), _preference(one)), default=None)


def _load(one: Candidate) -> float:
    load = valid_percent(one.judged.busy_percent)
    return float("inf") if load is None else load
