"""Which GPUs to offer, and in what order."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import Unmet, UsageError
from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, Summary
from fleet_smi.model.node_names import unique_node_names
from fleet_smi.model.policies import POLICIES, is_offered
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.speed import speed_rank
from fleet_smi.model.units import GIB, format_duration, format_size
from fleet_smi.model.verdict.readings import free_memory, total_memory, valid_percent
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds

__all__ = [
    "POLICIES",
    "Candidate",
    "GpuRequest",
    "Offer",
    "Rejection",
    "choose_offer",
    "find_offer",
    "node_candidates",
    "require_offer",
]

_MOST_CELSIUS = 150.0
_OTHER_KIND = "free, but whole GPUs and MIG instances are not mixed"
_VENDORS: tuple[Vendor, ...] = ("nvidia", "amd", "intel")


class GpuRequest(Struct, frozen=True, kw_only=True):
    """What is asked for; a `count` of 0 asks for all there are.

    `model` is words that the model's name must contain, `node` a pattern for node names.
    Cards of one vendor are offered, because programs and indices are of one vendor: the one
    asked for, else NVIDIA's where there are any.
    """

    count: int = 0
    min_free_bytes: int = 0
    model: str | None = None
    node: str | None = None
    same_node: bool = False
    policy: str = "free"
    max_used_percent: float = 20.0
    vendor: Vendor | None = None


class Candidate(Struct, frozen=True, kw_only=True):
    """A GPU or MIG instance that might be offered.

    `part` numbers the instances of one GPU, and `instance` is the one that is meant.
    `node_label` is the name of its node made unique in the fleet; set for what is offered.
    """

    node_id: str
    node: str
    index: int
    uuid: str
    vendor: Vendor
    model: str | None
    gpu: JudgedGpu
    instance: JudgedInstance | None = None
    free_memory_bytes: int | None
    temperature_celsius: float | None = None
    taken_beside: int = 0
    part: int | None = None
    node_label: str | None = None

    @property
    def judged(self) -> JudgedGpu | JudgedInstance:
        """What is offered: the GPU, or an instance of it."""
        return self.instance or self.gpu

    @property
    def label(self) -> str:
        """How people call it: "gpu03:1", or "gpu03:1:0" for an instance."""
        label = f"{self.node}:{self.index}"
        return label if self.part is None else f"{label}:{self.part}"


class Rejection(Struct, frozen=True, kw_only=True):
    """Why something was not offered; without an index it is a whole node."""

    node: str
    words: str
    index: int | None = None
    uuid: str | None = None
    part: int | None = None


RejectedCandidate = tuple[Candidate, str]


class Offer(Struct, frozen=True, kw_only=True):
    """What can be had, best first. `unmet` says why that is not what was asked for."""

    taken_at: float
    summary: Summary
    wanted: int
    offered: tuple[Candidate, ...] = ()
    refused: tuple[Rejection, ...] = ()
    unmet: str | None = None


def find_offer(
    view: FleetView, request: GpuRequest, settings: Thresholds = DEFAULT_THRESHOLDS
) -> Offer:
    """What of the fleet meets a request; when too little does, all of it and a sentence."""
    there = (one for node in view.nodes for one in node_candidates(node, request))
    return choose_offer(view, sorted(there, key=_place), request, settings)


def choose_offer(
    view: FleetView,
    pool: Sequence[Candidate],
    request: GpuRequest,
    settings: Thresholds = DEFAULT_THRESHOLDS,
) -> Offer:
    """The same of candidates that are there in the order of their nodes' names and of indices."""
    _check(request)
    vendor = request.vendor or _usual_vendor(pool)
    answers = [(one, _why_not(one, request, vendor, settings)) for one in pool]
    fitting = sorted((one for one, words in answers if words is None), key=_order)
    chosen = _one_kind(fitting, request.count)
    kept = set(map(id, chosen))  # to compare them would take the square of a large fleet
    refused = [(one, words or _OTHER_KIND) for one, words in answers if id(one) not in kept]
    if request.same_node:
        chosen = _one_node(chosen, request.count)
    enough = len(chosen) >= max(1, request.count)
    offered = chosen[: request.count or None] if enough else chosen
    return Offer(
        taken_at=view.taken_at,
        summary=view.summary,
        wanted=request.count,
        offered=tuple(_with_node_labels(offered, view)),
        refused=tuple(_refusals(view.nodes, refused, request)),
        unmet=None if enough else _unmet(request, len(fitting), len(chosen), refused),
    )


def _with_node_labels(offered: Iterable[Candidate], view: FleetView) -> Iterator[Candidate]:
    names = unique_node_names(view.nodes)
    return (replace(one, node_label=names[one.node_id]) for one in offered)


def require_offer(
    view: FleetView, request: GpuRequest, settings: Thresholds = DEFAULT_THRESHOLDS
) -> Offer:
    """What meets the request; raise `Unmet` when not enough does."""
    found = find_offer(view, request, settings)
    if found.unmet is not None:
        raise Unmet(found.unmet)
    return found


def _check(request: GpuRequest) -> None:
    if request.count < 0:
        raise UsageError(f"{request.count} GPUs cannot be offered: ask for one or more")
    if request.policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise UsageError(f"unknown policy {request.policy!r}: there are {known}")


def _is_asked_for(node: NodeView, request: GpuRequest) -> bool:
    if request.node is None:
        return True
    try:
        return re.search(request.node, node.name) is not None
    except re.error as exc:
        raise UsageError(f"{request.node!r} is not a pattern: {exc}") from None


def node_candidates(node: NodeView, request: GpuRequest) -> Iterator[Candidate]:
    """Everything on a node that is of the model asked for, whatever its state."""
    if node.silent or not _is_asked_for(node, request):
        return
    taken = sum(gpu.verdict.state not in ("free", "leased") for gpu in node.gpus)
    words = (request.model or "").casefold().split()
    for gpu in node.gpus:
        for part, judged in _parts(gpu):
            model = _model(gpu, judged)
            if all(word in (model or "").casefold() for word in words):
                yield Candidate(
                    node_id=node.node_id,
                    node=node.name,
                    index=gpu.index,
                    uuid=judged.uuid,
                    vendor=gpu.vendor,
                    model=model,
                    gpu=gpu,
                    instance=judged if isinstance(judged, JudgedInstance) else None,
                    free_memory_bytes=_free_memory(gpu, judged),
                    temperature_celsius=_celsius(gpu),
                    taken_beside=taken,
                    part=part,
                )


def _parts(gpu: JudgedGpu) -> list[tuple[int | None, JudgedGpu | JudgedInstance]]:
    """What can be offered of a GPU: itself, or its instances and never itself."""
    if not gpu.instances:
        return [(None, gpu)]
    return [(number, instance) for number, instance in enumerate(gpu.instances)]


def _model(gpu: JudgedGpu, judged: JudgedGpu | JudgedInstance) -> str | None:
    profile = judged.profile if isinstance(judged, JudgedInstance) else None
    return " ".join(filter(None, (gpu.name, profile))) or None


def _free_memory(gpu: JudgedGpu, judged: JudgedGpu | JudgedInstance) -> int | None:
    # Nothing is kept on a card that sleeps, though it cannot be asked.
    return total_memory(judged) if gpu.asleep else free_memory(judged)


def _celsius(gpu: JudgedGpu) -> float | None:
    value = gpu.temperature_celsius
    return value if value is not None and 0 < value < _MOST_CELSIUS else None


def _usual_vendor(there: Iterable[Candidate]) -> Vendor | None:
    present = {one.vendor for one in there}
    return next((vendor for vendor in _VENDORS if vendor in present), None)


def _why_not(
    one: Candidate, request: GpuRequest, vendor: Vendor | None, settings: Thresholds
) -> str | None:
    """Why a candidate is not offered; `None` when it is."""
    if one.vendor != vendor:
        return f"of another vendor: ask for it with --vendor {one.vendor}"
    if not is_offered(one.judged, request.policy, request.max_used_percent, settings):
        return _words(one)
    if not request.min_free_bytes:
        return None
    if one.free_memory_bytes is None:
        return f"{one.judged.verdict.state}, but how much memory is free is not known"
    if one.free_memory_bytes < request.min_free_bytes:
        size = format_size(one.free_memory_bytes)
        return f"{one.judged.verdict.state}, but with {size} of free memory"
    return None


def _words(one: Candidate) -> str:
    verdict = one.judged.verdict
    by = " by " if verdict.state == "held" and one.judged.processes else ": "
    return f"{verdict.state}{by}{verdict.reason}"


def _order(one: Candidate) -> tuple[object, ...]:
    """Much free memory, a fast model, a cool card, a quiet node; equals stay in their order."""
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
    """Whole GPUs or MIG instances: CUDA takes no mixture; whole ones where they are enough."""
    whole = [one for one in fitting if one.part is None]
    parts = [one for one in fitting if one.part is not None]
    return whole if len(whole) >= max(1, count) or len(parts) <= len(whole) else parts


def _one_node(fitting: list[Candidate], count: int) -> list[Candidate]:
    """The candidates of the node that can give enough, or else the most."""
    by_node: dict[str, list[Candidate]] = {}
    for one in fitting:
        by_node.setdefault(one.node_id, []).append(one)
    # Groups are in the order of their best candidate, and `max` keeps the first of equals.
    return max(by_node.values(), key=lambda group: min(len(group), count or len(group)), default=[])


def _refusals(
    nodes: Iterable[NodeView], refused: list[RejectedCandidate], request: GpuRequest
) -> Iterator[Rejection]:
    for one, words in refused:
        yield Rejection(node=one.node, index=one.index, uuid=one.uuid, part=one.part, words=words)
    for node in nodes:
        if node.silent and _is_asked_for(node, request):
            yield Rejection(node=node.name, words=_silence(node))


def _silence(node: NodeView) -> str:
    if node.age_seconds is None:
        return f"never heard: {node.trouble}" if node.trouble else "never heard"
    return f"node silent for {format_duration(node.age_seconds)}"


def _unmet(request: GpuRequest, free: int, together: int, refused: list[RejectedCandidate]) -> str:
    fitting = "fitting " if request.model or request.min_free_bytes or request.node else ""
    count = "no" if not free else str(free)
    words = f"{count} {fitting}{'GPU is' if free < 2 else 'GPUs are'} free"
    if request.same_node and free > together:
        words += f", {together} of them on one node"
    if request.count:
        words += f", {request.count} {'was' if request.count == 1 else 'were'} asked for"
    likely = _next_likely([one for one, _ in refused], request)
    return words if likely is None else f"{words}; the next likely one is {likely.label}"


def _next_likely(rest: list[Candidate], request: GpuRequest) -> Candidate | None:
    """What is held and was idle longest, or else what is busy and works least."""
    # One whose memory is never told is never free.
    told = [one for one in rest if one.free_memory_bytes is not None]
    large = [one for one in told if (total_memory(one.judged) or 0) >= request.min_free_bytes]
    held = [one for one in large if one.judged.verdict.state == "held"]
    busy = [one for one in large if one.judged.verdict.state == "busy"]
    if held:
        return min(held, key=lambda one: (-(one.judged.verdict.idle_seconds or 0.0), _order(one)))
    return min(busy, key=lambda one: (_load(one), _order(one)), default=None)


def _load(one: Candidate) -> float:
    load = valid_percent(one.judged.busy_percent)
    return float("inf") if load is None else load
