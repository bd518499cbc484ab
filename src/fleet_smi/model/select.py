"""Selection of GPUs for a request: which ones meet it, best first, and why not the others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import SupportsIndex

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Unmet, UsageError
from fleet_smi.model.candidates import (
    Candidate,
    Device,
    GpuRequest,
    OfferedDevice,
    make_candidate,
    matches_node,
)
from fleet_smi.model.card_size import device_gigabytes, memory_for_request
from fleet_smi.model.fit_check import BOOKED, NOT_VISIBLE, FitCheck, RejectedDevice, device_key
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView, Summary
from fleet_smi.model.node_names import NodePlace, node_place, unique_node_names
from fleet_smi.model.offer_reason import describe_met, describe_unmet
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.queue.estimate import Expected
from fleet_smi.model.speed import speed_rank
from fleet_smi.model.units import GIB, format_duration
from fleet_smi.model.verdict.readings import total_memory, valid_percent
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.views import NodeParts, split_node_view


class Rejection(Struct, frozen=True, kw_only=True):
    """Why a device was not offered; without an index it is about a whole node."""

    node: str
    words: str
    index: int | None = None
    uuid: str | None = None
    part: int | None = None


class Offer(Struct, frozen=True, kw_only=True):
    """The result of a request, best first.

    `reason` says how many are offered and where. `unmet` is set if it is less than requested, and
    says why; `expected` is then when it can probably be met, where a hub knows that.
    """

    taken_at: float
    summary: Summary
    wanted: int
    offered: tuple[Candidate, ...] = ()
    refused: tuple[Rejection, ...] = ()
    unmet: str | None = None
    reason: str = ""
    expected: Expected | None = None


class BriefOffer(Struct, frozen=True, kw_only=True):
    """The result of a request with no more of each GPU than its name, unless it is explained."""

    taken_at: float
    summary: Summary
    wanted: int
    offered: tuple[OfferedDevice, ...] = ()
    refused: tuple[Rejection, ...] = ()
    unmet: str | None = None
    reason: str = ""
    expected: Expected | None = None


class Choice(Struct, frozen=True, kw_only=True):
    """The devices that meet a request, best first; `refused` are filled where that is explained."""

    offered: Sequence[Device]
    refused: tuple[Rejection, ...]
    unmet: str | None
    reason: str


def find_offer(
    view: FleetView, request: GpuRequest, thresholds: Thresholds = DEFAULT_THRESHOLDS
) -> Offer:
    """Return what meets a request; where that is not enough, all of it and `unmet`."""
    nodes = [_in_order(node) for node in sorted(view.nodes, key=_place)]
    choice = choose_devices(nodes, request, thresholds, explain=True)
    names = unique_node_names(view.nodes)
    offered = [
        make_candidate(one, one.gpu, names[one.node.node_id])
        for one in choice.offered
        if isinstance(one.gpu, JudgedGpu)  # as all of a view are
    ]
    return Offer(
        taken_at=view.taken_at,
        summary=view.summary,
        wanted=request.count,
        offered=tuple(offered),
        refused=choice.refused,
        unmet=choice.unmet,
        reason=choice.reason,
    )


def _place(node: NodeView) -> NodePlace:
    return node_place(node.name, node.node_id)


def _in_order(node: NodeView) -> NodeParts:
    gpus = sorted(node.gpus, key=lambda gpu: gpu.index)
    return split_node_view(replace(node, gpus=tuple(gpus)))


def choose_devices(
    nodes: Sequence[NodeParts],
    request: GpuRequest,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    *,
    explain: bool = False,
) -> Choice:
    """Return the devices that meet a request, of nodes in the order in which they are preferred.

    Raise `UsageError` if the request is invalid.
    """
    check_request(request)
    check = FitCheck(nodes, request, thresholds)
    # Stable: equal devices stay in the order of the nodes.
    fitting = sorted(check.fitting(), key=_preference)
    of_one_kind = _one_kind(fitting, request.count)
    chosen = _one_node(of_one_kind, request.count) if request.same_node else of_one_kind
    is_enough = len(chosen) >= max(1, request.count)
    refused: list[RejectedDevice] = []
    if explain or not is_enough:
        refused = list(check.refused(set(map(device_key, of_one_kind))))
    offered = chosen[: request.count or None] if is_enough else chosen
    unmet = None
    if not is_enough:
        other_kind = len(fitting) - len(of_one_kind)
        unmet = describe_unmet(request, of_one_kind, chosen, other_kind)
        unmet += _remedy(request, refused)
    return Choice(
        offered=offered,
        refused=tuple(_rejections(nodes, refused, request)) if explain else (),
        unmet=unmet,
        reason=unmet or describe_met(request, offered),
    )


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


def _preference(one: Device) -> tuple[object, ...]:
    """Sort key: most free memory, fastest model, coolest card, least used node."""
    free, celsius = one.free_memory_bytes, one.temperature_celsius
    return (
        # In whole GiB: a few MiB more are no reason to take the hotter card.
        -1 if free is None else -1 - free // GIB,
        speed_rank(one.model),
        float("inf") if celsius is None else celsius,
        one.taken_beside,
    )


def _one_kind(fitting: list[Device], count: int) -> list[Device]:
    """Return whole GPUs or MIG instances, which CUDA cannot mix; whole ones if they suffice."""
    # Instances only where they give more than the whole GPUs, and these are not enough.
    whole = [one for one in fitting if one.part is None]
    parts = [one for one in fitting if one.part is not None]
    return whole if len(whole) >= max(1, count) or len(parts) <= len(whole) else parts


def _one_node(fitting: list[Device], count: int) -> list[Device]:
    """Return the candidates of the node that has enough, or else the most."""
    by_node: dict[str, list[Device]] = {}
    for one in fitting:
        by_node.setdefault(one.node.node_id, []).append(one)
    # Groups are in the order of their best candidate, and `max` keeps the first of equals.
    return max(by_node.values(), key=lambda group: min(len(group), count or len(group)), default=[])


def _rejections(
    nodes: Iterable[NodeParts], refused: list[RejectedDevice], request: GpuRequest
) -> Iterator[Rejection]:
    for one, reason in refused:
        yield Rejection(
            node=one.node.name, index=one.gpu.index, uuid=one.uuid, part=one.part, words=reason
        )
    for parts in nodes:
        if parts.node.silent and matches_node(parts.node, request):
            yield Rejection(node=parts.node.name, words=_silence(parts.node))


def _silence(node: NodeView) -> str:
    if node.age_seconds is None:
        return f"never reported: {node.trouble}" if node.trouble else "never reported"
    return f"node silent for {format_duration(node.age_seconds)}"


def _remedy(request: GpuRequest, refused: list[RejectedDevice]) -> str:
    """Return the end of a message: what CUDA leaves out, and the next likely GPU."""
    outside = sum(reason == NOT_VISIBLE for _, reason in refused)
    text = ""
    if outside:
        text += f"; CUDA_VISIBLE_DEVICES={request.cuda_visible_devices} leaves out {outside} more"
    booked = Counter([reason for _, reason in refused if reason.startswith(BOOKED)])
    for reason, count in sorted(booked.items()):
        verb = "is" if count == 1 else "are"
        text += f"; {count} {verb} {reason.removeprefix('free, but ')}"
    likely = _next_likely([one for one, reason in refused if reason != NOT_VISIBLE], request)
    return text if likely is None else f"{text}; the next likely one is {likely.label}"


def _next_likely(rest: list[Device], request: GpuRequest) -> Device | None:
    """Return the held one that was idle longest, or else the busy one with the least load."""
    # A device whose memory is not measured is never offered.
    measured = [one for one in rest if one.free_memory_bytes is not None]
    large = [one for one in measured if _has_room(one, request.min_free_bytes)]
    held = [one for one in large if one.verdict.state == "held"]
    busy = [one for one in large if one.verdict.state == "busy"]
    if held:
        return min(held, key=lambda one: (-(one.verdict.idle_seconds or 0.0), _preference(one)))
    return min(busy, key=lambda one: (_load(one), _preference(one)), default=None)


def _load(one: Device) -> float:
    load = valid_percent(one.device.busy_percent)
    return float("inf") if load is None else load


def _has_room(one: Device, needed: int) -> bool:
    total = total_memory(one.device) or 0
    return memory_for_request(total, total, device_gigabytes(one.device), needed) >= needed
